use codec::*;
use maps::*;
use std::fs;

fn diff(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b { return None }
    Some(a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len())))
}

#[test]
fn explore() {
    let dir = std::env::var("MAPS").unwrap();
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for f in files {
        let name = f.file_name().unwrap().to_str().unwrap().to_owned();
        if f.is_dir() { continue }
        let raw = fs::read(&f).unwrap();
        if name.starts_with("om") || name.starts_with("full") {
            match decode_all::<OsdMap>("osdmap", &raw) {
                Ok(m) => {
                    let again = m.to_bytes(types::features::SUPPORTED);
                    println!("{name}: e{} osds {} pools {} rel {} lens {} {} diff {:?}", m.epoch, m.osds.len(), m.pools.len(), m.require_osd_release, raw.len(), again.len(), diff(&raw, &again));
                    fs::write(format!("{dir}/out/{name}"), &again).unwrap();
                }
                Err(e) => println!("{name}: {e}"),
            }
        } else if name.starts_with("inc") {
            match decode_all::<Incremental>("inc", &raw) {
                Ok(m) => {
                    let again = m.to_bytes(types::features::SUPPORTED);
                    println!("{name}: e{} lens {} {} diff {:?} feat {:x}", m.epoch, raw.len(), again.len(), diff(&raw, &again), m.encode_features);
                    fs::write(format!("{dir}/out/{name}"), &again).unwrap();
                }
                Err(e) => println!("{name}: {e}"),
            }
        } else if name.starts_with("mm") || name.starts_with("monmap") {
            match decode_all::<MonMap>("monmap", &raw) {
                Ok(m) => {
                    let again = encode_to_bytes(&m);
                    println!("{name}: e{} lens {} {} diff {:?}", m.epoch, raw.len(), again.len(), diff(&raw, &again));
                    fs::write(format!("{dir}/out/{name}"), &again).unwrap();
                }
                Err(e) => println!("{name}: {e}"),
            }
        }
    }
}

#[test]
fn chain() {
    let dir = std::env::var("MAPS").unwrap();
    let mut map: Option<OsdMap> = None;
    for e in 1..=60 {
        let raw = fs::read(format!("{dir}/full.{e:02}")).unwrap();
        let full: OsdMap = decode_all("f", &raw).unwrap();
        if let Some(mut prev) = map.take() {
            let inc: Incremental = decode_all("i", &fs::read(format!("{dir}/inc.{e:02}")).unwrap()).unwrap();
            prev.apply(&inc).unwrap();
            if prev != full { println!("epoch {e} differs"); 
               let (a,b)=(format!("{prev:#?}"), format!("{full:#?}")); let al: Vec<_>=a.lines().collect(); for (i,(x,y)) in a.lines().zip(b.lines()).enumerate() { if x!=y { for k in i.saturating_sub(6)..i { println!("   {}",al[k]); } } }
               for (x,y) in a.lines().zip(b.lines()) { if x!=y { println!("{x} | {y}"); } } }
            if prev.checksum() != inc.full_crc { println!("epoch {e} crc"); }
        }
        map = Some(full);
    }
}
#[test]
fn show() {
    let inc: Incremental = decode_all("i", &fs::read("/tmp/maps/real/inc.02").unwrap()).unwrap();
    println!("{inc:?}");
}
