//! Texts of administrators' commands.

use types::OsdId;

/// Creates a pool that the autoscaler leaves alone.
pub fn create_pool_command(name: &str, pg_num: u32, size: u8) -> String {
    format!(
        r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":{pg_num},"pgp_num":{pg_num},"size":{size},"pg_autoscale_mode":"off"}}"#
    )
}

/// Sets a variable of a pool.
pub fn set_pool_command(pool: &str, variable: &str, value: &str) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"{pool}","var":"{variable}","val":"{value}"}}"#)
}

/// Sets an option of daemons.
pub fn set_option_command(who: &str, name: &str, value: u64) -> String {
    format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
}

/// Marks an OSD out, so that its data moves to others.
pub fn out_command(osd: OsdId) -> String {
    format!(r#"{{"prefix":"osd out","ids":["{osd}"]}}"#)
}

/// Removes a stopped OSD from the map.
pub fn purge_command(osd: OsdId) -> String {
    format!(r#"{{"prefix":"osd purge","id":{osd},"yes_i_really_mean_it":true}}"#)
}

/// Declares an OSD lost that is down: groups no longer wait for it.
pub fn lost_command(osd: OsdId) -> String {
    format!(r#"{{"prefix":"osd lost","id":{osd},"yes_i_really_mean_it":true}}"#)
}

/// Sets the override weight of an OSD.
pub fn reweight(id: u64, tenths: u64) -> String {
    let weight = tenths as f64 / 10.0;
    format!(r#"{{"prefix":"osd reweight","id":{id},"weight":{weight:.1}}}"#)
}

/// Sets the CRUSH weight of an OSD.
pub fn crush_reweight(id: u64, tenths: u64) -> String {
    let weight = tenths as f64 / 10.0;
    format!(r#"{{"prefix":"osd crush reweight","name":"osd.{id}","weight":{weight:.1}}}"#)
}

/// Commands that give an OSD its normal weight again.
pub fn restore_weights(id: u64) -> [String; 2] {
    [reweight(id, 10), crush_reweight(id, 10)]
}
