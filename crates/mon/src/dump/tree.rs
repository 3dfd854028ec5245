//! Formatting of the CRUSH tree with the state of each OSD: `osd tree`, `osd crush tree`, `osd df`.

use super::osdmap::weight;
use crate::command::number;
use crate::statistics::Statistics;
use crate::table::{self, Table};
use crush::{CrushMap, TreeItem, TreeView};
use maps::{OsdMap, OsdState};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::OsdId;
use wire::internal::OsdUsage;

/// Fields of an item that every kind of tree shows.
fn item_fields(crush: &CrushMap, item: &TreeItem) -> Map<String, Value> {
    let mut node = Map::new();
    node.insert("id".to_owned(), json!(item.id));
    if let Some(class) = crush.item_class(item.id) {
        node.insert("device_class".to_owned(), json!(class));
    }
    let type_id = crush.item_type(item.id).unwrap_or_default();
    node.insert("name".to_owned(), json!(name(crush, item.id)));
    node.insert("type".to_owned(), json!(crush.type_name(type_id).unwrap_or_default()));
    node.insert("type_id".to_owned(), json!(type_id));
    if item.id >= 0 {
        node.insert("crush_weight".to_owned(), weight(item.weight));
        node.insert("depth".to_owned(), json!(item.depth));
    }
    if item.parent.is_some() {
        node.insert("pool_weights".to_owned(), json!({}));
    }
    node
}

fn add_children(node: &mut Map<String, Value>, item: &TreeItem) {
    if item.id < 0 {
        node.insert("children".to_owned(), json!(item.children));
    }
}

fn name(crush: &CrushMap, id: i32) -> String {
    crush.item_name(id).map_or_else(|| format!("osd.{id}"), str::to_owned)
}

/// `osd crush tree`
pub fn crush_json(crush: &CrushMap, shadows: bool) -> Value {
    let view = TreeView { shadows, ..TreeView::default() };
    let nodes = view.items(crush, |_| true).into_iter().map(|item| {
        let mut node = item_fields(crush, &item);
        add_children(&mut node, &item);
        Value::Object(node)
    });
    json!({ "nodes": nodes.collect::<Vec<_>>(), "stray": [] })
}

/// Plain `osd crush tree`.
pub fn crush_plain(crush: &CrushMap, shadows: bool) -> String {
    let mut table = Table::new(&[">ID", ">CLASS", "^WEIGHT", "TYPE NAME"]);
    let view = TreeView { shadows, ..TreeView::default() };
    for item in view.items(crush, |_| true) {
        table.row(leading_cells(crush, &item).into_iter().chain([type_and_name(crush, &item)]));
    }
    table.to_string()
}

fn leading_cells(crush: &CrushMap, item: &TreeItem) -> [String; 3] {
    let class = crush.item_class(item.id).unwrap_or_default().to_owned();
    [item.id.to_string(), class, five_digits(item.weight)]
}

fn five_digits(fixed: u32) -> String {
    // Ceph shows weights rounded to five digits, without a fraction for zero.
    if fixed == 0 { "0".to_owned() } else { format!("{:.5}", f64::from(fixed) / 65536.0) }
}

fn type_and_name(crush: &CrushMap, item: &TreeItem) -> String {
    let indent = "    ".repeat(item.depth);
    let type_name = crush.item_type(item.id).and_then(|id| crush.type_name(id));
    match item.id {
        0.. => format!("{indent}{}", name(crush, item.id)),
        _ => format!("{indent}{} {}", type_name.unwrap_or_default(), name(crush, item.id)),
    }
}

/// OSDs that exist but have no place in the tree.
fn strays(map: &OsdMap, shows: &dyn Fn(OsdId) -> bool) -> Vec<TreeItem> {
    let stray = |(id, _): (OsdId, &maps::Osd)| {
        (!map.crush.is_held(id.0) && shows(id)).then(|| TreeItem {
            id: id.0,
            parent: None,
            depth: 0,
            weight: 0,
            children: Vec::new(),
        })
    };
    map.existing_osds().filter_map(stray).collect()
}

/// `up`, `down`, `destroyed`, or `DNE`.
pub fn status_word(map: &OsdMap, osd: OsdId) -> &'static str {
    match map.osd(osd) {
        None => "DNE",
        Some(known) if known.is_up() => "up",
        Some(known) if known.state.contains(OsdState::DESTROYED) => "destroyed",
        Some(_) => "down",
    }
}

/// The part of the tree and the OSDs to show.
pub struct Selection<'a> {
    /// The bucket to begin at; `None` for all roots.
    pub root: Option<i32>,
    /// Leaves out buckets without OSDs to show.
    pub hide_empty: bool,
    /// The OSDs to show.
    pub shows: &'a dyn Fn(OsdId) -> bool,
}

impl Selection<'_> {
    fn items(&self, map: &OsdMap) -> Vec<TreeItem> {
        let view = TreeView { root: self.root, shadows: false, hide_empty: self.hide_empty };
        view.items(&map.crush, |device| (self.shows)(OsdId(device)))
    }

    fn strays(&self, map: &OsdMap) -> Vec<TreeItem> {
        if self.root.is_some() { Vec::new() } else { strays(map, self.shows) }
    }
}

/// `osd tree`
pub fn osd_json(map: &OsdMap, selection: &Selection<'_>) -> Value {
    let node = |item: TreeItem| {
        let mut node = item_fields(&map.crush, &item);
        let id = OsdId(item.id);
        if item.id >= 0 {
            let osd = map.osd(id);
            node.insert("exists".to_owned(), json!(u8::from(osd.is_some())));
            node.insert("status".to_owned(), json!(status_word(map, id)));
            node.insert("reweight".to_owned(), weight(osd.map_or(0, |osd| osd.weight)));
            let affinity = osd.map_or(maps::WEIGHT_IN, |osd| osd.primary_affinity);
            node.insert("primary_affinity".to_owned(), weight(affinity));
        }
        add_children(&mut node, &item);
        Value::Object(node)
    };
    json!({
        "nodes": selection.items(map).into_iter().map(node).collect::<Vec<_>>(),
        "stray": selection.strays(map).into_iter().map(node).collect::<Vec<_>>(),
    })
}

/// Plain `osd tree`.
pub fn osd_plain(map: &OsdMap, selection: &Selection<'_>) -> String {
    let columns = [">ID", ">CLASS", "^WEIGHT", "TYPE NAME", ">STATUS", ">REWEIGHT", ">PRI-AFF"];
    let mut table = Table::new(&columns);
    for item in selection.items(map).into_iter().chain(selection.strays(map)) {
        let cells = leading_cells(&map.crush, &item);
        let mut cells: Vec<String> =
            cells.into_iter().chain([type_and_name(&map.crush, &item)]).collect();
        if item.id >= 0 {
            let osd = map.osd(OsdId(item.id));
            cells.push(status_word(map, OsdId(item.id)).to_owned());
            cells.push(five_digits(osd.map_or(0, |osd| osd.weight)));
            cells.push(five_digits(osd.map_or(maps::WEIGHT_IN, |osd| osd.primary_affinity)));
        } else {
            cells.extend(std::iter::repeat_n(String::new(), 3));
        }
        table.row(cells);
    }
    table.to_string()
}

/// Disk usage of each OSD with its place in the tree: `osd df`.
pub struct Utilization<'a> {
    map: &'a OsdMap,
    usage: BTreeMap<OsdId, OsdUsage>,
    pgs: BTreeMap<OsdId, u64>,
    average: f64,
}

/// Usage of a bucket, or of the whole tree, in bytes.
#[derive(Default, Clone, Copy)]
struct Sum {
    total: u64,
    used: u64,
    omap: u64,
    meta: u64,
    available: u64,
}

impl Sum {
    fn of<'a>(usages: impl IntoIterator<Item = &'a OsdUsage>) -> Sum {
        usages.into_iter().fold(Sum::default(), |sum, usage| Sum {
            total: sum.total + usage.bytes_total,
            used: sum.used + usage.bytes_used,
            omap: sum.omap + usage.bytes_omap,
            meta: sum.meta + usage.bytes_meta,
            available: sum.available + usage.bytes_available,
        })
    }

    fn data(&self) -> u64 {
        self.used.saturating_sub(self.omap + self.meta)
    }

    fn utilization(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 * 100.0 / self.total as f64 }
    }

    fn json(&self, node: &mut Map<String, Value>, prefix: &str) {
        for (name, value) in [
            ("kb", self.total),
            ("kb_used", self.used),
            ("kb_used_data", self.data()),
            ("kb_used_omap", self.omap),
            ("kb_used_meta", self.meta),
            ("kb_avail", self.available),
        ] {
            node.insert(format!("{prefix}{name}"), json!(value >> 10));
        }
    }

    fn cells(&self) -> Vec<String> {
        let sizes = [self.total, self.used, self.data(), self.omap, self.meta, self.available];
        let mut cells: Vec<String> = sizes.into_iter().map(table::bytes).collect();
        cells.push(format!("{:.2}", self.utilization()));
        cells
    }
}

impl<'a> Utilization<'a> {
    /// Collects the usage of all OSDs that have reported.
    pub fn new(map: &'a OsdMap, stats: &Statistics) -> Self {
        let usage: BTreeMap<OsdId, OsdUsage> = stats
            .osds()
            .filter(|(osd, _)| map.is_in(*osd))
            .map(|(osd, report)| (osd, report.usage.clone()))
            .collect();
        let average = Sum::of(usage.values()).utilization();
        Utilization { map, usage, pgs: super::pgs::pgs_per_osd(map), average }
    }

    fn sum(&self, item: i32) -> Sum {
        let devices = self.map.crush.devices_below(item);
        Sum::of(devices.iter().filter_map(|device| self.usage.get(&OsdId(*device))))
    }

    fn variation(&self, sum: &Sum) -> f64 {
        if self.average == 0.0 { 0.0 } else { sum.utilization() / self.average }
    }

    fn variations(&self) -> (f64, f64, f64) {
        let each: Vec<f64> =
            self.usage.values().map(|usage| self.variation(&Sum::of([usage]))).collect();
        let (min, max) = each
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(min, max), value| (min.min(*value), max.max(*value)));
        let squares: f64 = each.iter().map(|value| (value - 1.0).powi(2)).sum();
        let deviation = if each.is_empty() { 0.0 } else { (squares / each.len() as f64).sqrt() };
        (if min.is_finite() { min } else { 0.0 }, max, deviation * self.average)
    }

    /// `osd df`; `tree` adds the buckets.
    pub fn json(&self, tree: bool, selection: &Selection<'_>) -> Value {
        let items = self.items(tree, selection).into_iter();
        let nodes: Vec<Value> = items.map(|item| self.node(&item)).collect();
        let (min, max, deviation) = self.variations();
        let mut summary = Map::new();
        Sum::of(self.usage.values()).json(&mut summary, "total_");
        summary.insert("average_utilization".to_owned(), number(self.average));
        summary.insert("min_var".to_owned(), number(min));
        summary.insert("max_var".to_owned(), number(max));
        summary.insert("dev".to_owned(), number(deviation));
        json!({ "nodes": nodes, "stray": [], "summary": summary })
    }

    fn items(&self, tree: bool, selection: &Selection<'_>) -> Vec<TreeItem> {
        let items = selection.items(self.map);
        items.into_iter().filter(|item| tree || item.id >= 0).collect()
    }

    fn node(&self, item: &TreeItem) -> Value {
        let mut node = item_fields(&self.map.crush, item);
        let sum = self.sum(item.id);
        let osd = self.map.osd(OsdId(item.id)).filter(|_| item.id >= 0);
        let reweight =
            if item.id < 0 { json!(-1) } else { weight(osd.map_or(0, |osd| osd.weight)) };
        node.insert("reweight".to_owned(), reweight);
        sum.json(&mut node, "");
        node.insert("utilization".to_owned(), number(sum.utilization()));
        node.insert("var".to_owned(), number(self.variation(&sum)));
        let pgs = self.pgs.get(&OsdId(item.id)).copied().unwrap_or(0);
        node.insert("pgs".to_owned(), json!(pgs));
        if item.id >= 0 {
            node.insert("status".to_owned(), json!(status_word(self.map, OsdId(item.id))));
        }
        add_children(&mut node, item);
        Value::Object(node)
    }

    /// Plain `osd df`.
    pub fn plain(&self, tree: bool, selection: &Selection<'_>) -> String {
        let mut columns = vec![
            ">ID",
            ">CLASS",
            "^WEIGHT",
            "^REWEIGHT",
            "^SIZE",
            "^RAW USE",
            "^DATA",
            "^OMAP",
            "^META",
            "^AVAIL",
            "^%USE",
            "^VAR",
            "^PGS",
            ">STATUS",
        ];
        if tree {
            columns.push("TYPE NAME");
        }
        let mut table = Table::new(&columns);
        for item in self.items(tree, selection) {
            table.row(self.cells(&item, tree));
        }
        let sum = Sum::of(self.usage.values());
        let mut total = vec![String::new(), String::new(), String::new(), "TOTAL".to_owned()];
        total.extend(sum.cells());
        assert!(total.len() <= columns.len(), "each sum is in a column");
        total.resize(columns.len(), String::new());
        table.row(total);
        let (min, max, deviation) = self.variations();
        format!("{table}MIN/MAX VAR: {min:.2}/{max:.2}  STDDEV: {deviation:.2}\n")
    }

    fn cells(&self, item: &TreeItem, tree: bool) -> Vec<String> {
        let sum = self.sum(item.id);
        let mut cells = leading_cells(&self.map.crush, item).to_vec();
        let osd = self.map.osd(OsdId(item.id)).filter(|_| item.id >= 0);
        cells.push(match item.id {
            0.. => five_digits(osd.map_or(0, |osd| osd.weight)),
            _ => "-".to_owned(),
        });
        cells.extend(sum.cells());
        cells.push(format!("{:.2}", self.variation(&sum)));
        if item.id >= 0 {
            cells.push(self.pgs.get(&OsdId(item.id)).copied().unwrap_or(0).to_string());
            cells.push(status_word(self.map, OsdId(item.id)).to_owned());
        } else {
            cells.extend(["-".to_owned(), String::new()]);
        }
        if tree {
            cells.push(type_and_name(&self.map.crush, item));
        }
        cells
    }
}
