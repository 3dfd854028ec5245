//! Name, memory and metadata of the machine.

use std::collections::BTreeMap;
use std::fs;

/// The name of this machine, for the CRUSH map.
pub fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String =
        name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Bytes of memory that the machine has; 0 if the kernel does not tell.
pub fn total_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// Metadata of the machine that daemons report, under Ceph's names. Values that cannot be read are empty:
/// metadata is for people, and no reason not to start.
pub fn host_facts() -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
    from_files(
        &read("/proc/cpuinfo"),
        &read("/proc/meminfo"),
        &read("/etc/os-release"),
        [kernel("ostype"), kernel("osrelease"), kernel("version")],
    )
}

fn from_files(
    cpu: &str,
    memory: &str,
    release: &str,
    [os, kernel_version, kernel_description]: [String; 3],
) -> BTreeMap<String, String> {
    let kilobytes = |name: &str| value(memory, name, ':').trim_end_matches("kB").trim().to_owned();
    let of_release = |name: &str| value(release, name, '=').trim_matches('"').to_owned();
    let facts = [
        ("cpu", value(cpu, "model name", ':').to_owned()),
        ("distro", of_release("ID")),
        ("distro_description", of_release("PRETTY_NAME")),
        ("distro_version", of_release("VERSION_ID")),
        ("kernel_description", kernel_description),
        ("kernel_version", kernel_version),
        ("mem_swap_kb", kilobytes("SwapTotal")),
        ("mem_total_kb", kilobytes("MemTotal")),
        ("os", os),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The value of the first line `NAME SEPARATOR VALUE`.
fn value<'a>(text: &'a str, name: &str, separator: char) -> &'a str {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    let mut named = pairs.filter(|(key, _)| key.trim() == name);
    named.next().map_or("", |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_kernels_files() {
        let facts = from_files(
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Another\n",
            "MemTotal:       24000000 kB\nSwapTotal:             0 kB\n",
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n",
            ["Linux".to_owned(), "6.1.0".to_owned(), "#1 SMP".to_owned()],
        );
        let expected = [
            ("cpu", "Some CPU @ 2 GHz"),
            ("distro", "debian"),
            ("distro_description", "Debian GNU/Linux 12 (bookworm)"),
            ("distro_version", "12"),
            ("kernel_description", "#1 SMP"),
            ("kernel_version", "6.1.0"),
            ("mem_swap_kb", "0"),
            ("mem_total_kb", "24000000"),
            ("os", "Linux"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(facts, expected.clone().into());
        let nothing = from_files("", "", "", Default::default());
        assert!(nothing.len() == expected.len() && nothing.values().all(String::is_empty));
    }
}
