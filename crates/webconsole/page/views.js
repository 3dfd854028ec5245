// The views: each has a name, a title, and shows its state.
import { action, h, mayChange, question } from "/console.js";
import { plot } from "/plot.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(value) {
  let unit = 0;
  for (value = Number(value ?? 0); value >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024;
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
const count = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${(value / 1e3).toFixed(1)} k` : String(Math.round(value ?? 0)));
/** A word of a command as a shell takes it: names of pools may have any characters. */
const word = (text) => (/^[A-Za-z0-9_.:/@%+,-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);
const plural = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
const time = (seconds) => new Date(seconds * 1000).toLocaleString();
const micros = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} ms` : `${Math.round(value)} µs`);
const percent = (part, whole) => (whole ? `${((part / whole) * 100).toFixed(1)} %` : "0 %");
function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

const card = (title, ...content) => h("section", { class: "card" }, h("h2", {}, title), content);

/** A table; a column is [title, of a row, is a number]. The first column names the row. */
function table(caption, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "dim" }, empty);
  const cell = (row, [, of, isNumber], at) => h(at ? "td" : "th", { class: isNumber ? "number" : false, scope: at ? false : "row" }, of(row));
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(([title, , isNumber]) => h("th", { scope: "col", class: isNumber ? "number" : false }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((column, at) => cell(row, column, at)))))));
}

function meter(label, value, most) {
  return h("meter", { "aria-label": label, min: 0, max: Math.max(1, most), high: most * 0.85, low: most * 0.75, optimum: 0, value });
}

const shell = (text) => h("pre", {}, text);

// ---- Overview

const FLAG = /(noout|noin|noup|nodown|nobackfill|norecover|norebalance|noscrub|nodeep-scrub|pauserd|pausewr)/g;

/** Buttons that mend a warning. */
function remedies(code, check) {
  const text = check.detail.map((line) => line.message).join("\n");
  const all = (pattern) => [...new Set([...`${check.summary.message}\n${text}`.matchAll(pattern)].map((found) => found[1]))].slice(0, 8);
  const buttons = [];
  if (code === "OSDMAP_FLAGS") {
    for (const flag of all(FLAG)) {
      buttons.push(action(`Clear ${flag}`, "osd", "The cluster resumes what the flag holds back.", `ceph osd unset ${flag}`, { prefix: "osd unset", key: flag }));
    }
  }
  if (code === "POOL_APP_NOT_ENABLED") {
    for (const pool of all(/pool '([^']+)'/g)) {
      for (const app of ["rbd", "cephfs"]) {
        buttons.push(action(`${pool} is for ${app}`, "osd", "Says what the pool is used for.", `ceph osd pool application enable ${word(pool)} ${word(app)}`, { prefix: "osd pool application enable", pool, app }));
      }
    }
  }
  if (code === "RECENT_CRASH") {
    buttons.push(action("Archive crash reports", "mgr", "The reports are kept, and no longer warned of.", "ceph crash archive-all", { prefix: "crash archive-all" }));
  }
  if (code === "PG_DAMAGED" || code === "OSD_SCRUB_ERRORS") {
    for (const pg of all(/pg ([0-9]+\.[0-9a-f]+)/g)) {
      buttons.push(action(`Repair ${pg}`, "pg", "Damaged copies are replaced by good ones.", `ceph pg repair ${pg}`, { prefix: "pg repair", pgid: pg }));
    }
  }
  if (code === "OSD_DOWN") {
    buttons.push(action("Keep data where it is", "osd", "OSDs that are down are not taken out, so no data moves: for work on a host that comes back.", "ceph osd set noout", { prefix: "osd set", key: "noout" }));
    for (const osd of all(/osd\.([0-9]+)/g)) {
      buttons.push(action(`Take osd.${osd} out`, "osd", "Its data is copied to other OSDs.", `ceph osd out ${osd}`, { prefix: "osd out", ids: [osd] }));
    }
  }
  buttons.push(check.muted
    ? action("Unmute", "mon", "The warning counts again.", `ceph health unmute ${code}`, { prefix: "health unmute", code })
    : action("Mute for 4 hours", "mon", "The warning is not counted for four hours, unless it gets worse.", `ceph health mute ${code} 4h`, { prefix: "health mute", code, ttl: "4h" }));
  return buttons.filter(Boolean);
}

/** The commands that a text quotes. */
const quoted = (text) => [...new Set([...text.matchAll(/'((?:ceph|sepiola|rbd|systemctl) [^']+)'/g)].map((found) => found[1]))];

function check(code, it) {
  const kind = it.muted ? "dim" : it.severity === "HEALTH_ERR" ? "err" : "warn";
  const lines = it.detail.map((line) => line.message);
  const next = lines.filter((line) => line.startsWith("next: ")).map((line) => line.slice(6));
  const causes = lines.filter((line) => !line.startsWith("next: "));
  const few = causes.slice(0, 5), more = causes.slice(5);
  return h("article", { class: `check ${kind}` },
    h("h3", {}, `${it.muted ? "Muted: " : ""}${it.summary.message} `, h("span", { class: "dim" }, code)),
    few.length ? h("ul", {}, few.map((line) => h("li", {}, line))) : null,
    more.length ? h("details", { "data-key": code }, h("summary", { "data-key": `${code}-more` }, `${more.length} more`), h("ul", {}, more.map((line) => h("li", {}, line)))) : null,
    next.map((line) => [h("p", {}, h("strong", {}, "What to do: "), line), quoted(line).map(shell)]),
    h("p", { class: "actions" }, remedies(code, it)));
}

function overview(it, history) {
  if (!it) return [];
  const checks = Object.entries(it.health.checks);
  const rate = it.rate;
  const days = it.days_until_full;
  const hour = history?.hour ?? [];
  const series = (...columns) => hour.map((row) => [row[0], ...columns.map((column) => row[column])]);
  return [
    h("section", {}, h("h2", {}, "Health"), checks.length ? checks.map(([code, check_]) => check(code, check_)) : h("p", { class: "check ok" }, h("strong", {}, "Healthy: nothing needs attention."))),
    it.recoveries.length ? card("Recovery", it.recoveries.map((event) => h("div", {},
      h("p", {}, event.message, event.seconds_left !== null ? ` · about ${span(event.seconds_left)} left` : ""),
      h("progress", { "aria-label": event.message, max: 1, value: event.fraction })))) : null,
    h("div", { class: "cards" },
      card("Capacity",
        h("p", {}, h("span", { class: "big" }, percent(it.used, it.total)), ` used: ${bytes(it.used)} of ${bytes(it.total)}`),
        meter("Used space", it.used, it.total),
        h("p", { class: "dim" }, days === null ? "No growth to tell when it is full" : `Full in about ${days} days, at the growth of the last days`)),
      card("Now",
        h("p", {}, h("span", { class: "big" }, count((rate.read_op_per_sec ?? 0) + (rate.write_op_per_sec ?? 0))), " operations per second"),
        h("p", { class: "dim" }, `${bytes(rate.read_bytes_sec)}/s read, ${bytes(rate.write_bytes_sec)}/s written`),
        h("p", { class: "dim" }, rate.recovering_bytes_per_sec ? `${bytes(rate.recovering_bytes_per_sec)}/s recovering` : "Nothing recovers")),
      card("Daemons",
        h("p", {}, `${it.osds.num_up_osds} of ${it.osds.num_osds} OSDs up, ${it.osds.num_in_osds} in`),
        h("p", {}, `Monitors: ${it.monitors.quorum.join(", ")}${it.monitors.absent.length ? `; absent: ${it.monitors.absent.join(", ")}` : ""}`),
        it.servers ? h("p", {}, `Metadata servers: ${it.servers}`) : null,
        it.flags ? h("p", {}, `Flags: ${it.flags}`) : null),
      card("Data",
        h("p", {}, `${plural(it.pools, "pool")}, ${plural(it.objects, "object")}, ${bytes(it.data)}`),
        h("ul", { class: "plain" }, it.groups.map(([state, number]) => h("li", {}, `${plural(number, "group")} ${state || "unknown"}`))),
        it.shortfalls.map(([name, some, all]) => h("p", {}, `${some} of ${all} copies ${name}`)))),
    h("h2", {}, "The last hour"),
    h("div", { class: "cards plots" },
      plot("Operations per second", series(1, 2), ["reads", "writes"], count),
      plot("Throughput", series(3, 4), ["read", "written"], (value) => `${bytes(value)}/s`),
      plot("Latency", series(5, 6), ["reads", "writes"], micros),
      plot("Used space", series(8), ["used"], bytes)),
  ];
}

// ---- Hosts and OSDs

function osds(it) {
  if (!it) return [];
  const isOsd = (node) => node.type === "osd";
  const parents = new Map(it.tree.flatMap((node) => (node.children ?? []).map((child) => [child, node])));
  const host = (node) => it.osds[node.id]?.host ?? parents.get(node.id)?.name ?? "";
  const rows = it.tree.filter(isOsd);
  const of = (node) => it.osds[node.id] ?? {};
  const state = (node) => {
    const known = of(node);
    const text = `${known.up ? "up" : "down"}, ${known.in ? "in" : "out"}`;
    return h("span", { class: `state ${known.up && known.in ? "ok" : known.up ? "warn" : "err"}` }, text);
  };
  const buttons = (node) => h("div", { class: "actions" },
    of(node).in
      ? action(`Out`, "osd", `The data of ${node.name} is copied to other OSDs; clients are served all the time.`, `ceph osd out ${node.id}`, { prefix: "osd out", ids: [String(node.id)] })
      : action(`In`, "osd", `${node.name} gets data again.`, `ceph osd in ${node.id}`, { prefix: "osd in", ids: [String(node.id)] }),
    action("Scrub", "osd", `All groups of ${node.name} compare their copies.`, `ceph osd deep-scrub ${node.id}`, { prefix: "osd deep-scrub", who: String(node.id) }));
  const hosts = it.tree.filter((node) => node.type === "host").map((node) => {
    const own = rows.filter((row) => (node.children ?? []).includes(row.id));
    return { name: node.name, osds: own.length, up: own.filter((row) => of(row).up).length, kb: node.kb, used: node.kb_used };
  });
  return [
    card("Hosts", table("Hosts", [
      ["Host", (row) => row.name],
      ["OSDs up", (row) => `${row.up} of ${row.osds}`, true],
      ["Size", (row) => bytes(row.kb * 1024), true],
      ["Used", (row) => percent(row.used, row.kb), true],
    ], hosts, "There is no host with OSDs yet.")),
    card("OSDs", table("OSDs", [
      ["OSD", (node) => node.name],
      ["Host", host],
      ["State", state],
      ["Class", (node) => node.device_class ?? ""],
      ["Device", (node) => of(node).devices ?? ""],
      ["Size", (node) => bytes(node.kb * 1024), true],
      ["Used", (node) => `${(node.utilization ?? 0).toFixed(1)} %`, true],
      ["Groups", (node) => count(node.pgs), true],
      ["Commit", (node) => (of(node).commit_ms === null ? "" : `${of(node).commit_ms} ms`), true],
      ["Slow", (node) => of(node).slow, true],
      ...(mayChange("osd") ? [["Actions", buttons]] : []),
    ], rows, "There is no OSD yet.")),
    replacing(rows, of),
  ];
}

/** The steps of replacing a disk, with those OSDs that are on their way out. */
function replacing(rows, of) {
  const leaving = rows.filter((node) => !of(node).in || !of(node).up);
  return card("Replace a disk",
    h("p", {}, "A disk is replaced under the id of its OSD, so that no other data moves. On the host of the OSD:"),
    h("ol", {},
      h("li", {}, "Take the OSD out and wait until its groups are clean elsewhere (Groups). If the disk is dead already, skip this."),
      h("li", {}, "See that nothing is lost:", shell("ceph osd safe-to-destroy N")),
      h("li", {}, "Stop it, change the disk, and make its OSD again under the same id:", shell("systemctl stop sepiola-osd@N\nsepiola osd replace --id N --disk /dev/NEW\nsystemctl start sepiola-osd@N"))),
    leaving.length ? leaving.map((node) => h("p", { class: "actions" },
      `${node.name} is ${of(node).up ? "up" : "down"} and ${of(node).in ? "in" : "out"}, with ${plural(node.pgs, "group")}.`,
      question(`May the disk of ${node.name} go?`, { prefix: "osd safe-to-destroy", ids: [String(node.id)] }))) : h("p", { class: "dim" }, "All OSDs are up and in."));
}

// ---- Pools, groups

function pools(it) {
  if (!it) return [];
  const modes = (row) => h("div", { class: "actions" },
    row.autoscale === "on"
      ? action("Fix the number of groups", "osd", "The number of groups no longer follows the data.", `ceph osd pool set ${word(row.name)} pg_autoscale_mode off`, { prefix: "osd pool set", pool: row.name, var: "pg_autoscale_mode", val: "off" })
      : action("Let groups follow data", "osd", "The number of groups follows the data of the pool.", `ceph osd pool set ${word(row.name)} pg_autoscale_mode on`, { prefix: "osd pool set", pool: row.name, var: "pg_autoscale_mode", val: "on" }),
    action("Scrub", "osd", "All groups of the pool compare their copies.", `ceph osd pool scrub ${word(row.name)}`, { prefix: "osd pool scrub", who: [row.name] }));
  return [card("Pools", table("Pools", [
    ["Pool", (row) => row.name],
    ["For", (row) => row.applications.join(", ")],
    ["Redundancy", (row) => (row.kind === "erasure" ? `erasure code ${row.profile}` : `${row.size} copies`)],
    ["Rule", (row) => row.rule ?? ""],
    ["Groups", (row) => (row.groups === row.groups_wanted ? row.groups : `${row.groups} → ${row.groups_wanted}`), true],
    ["Objects", (row) => count(row.objects), true],
    ["Stored", (row) => bytes(row.stored), true],
    ["Used", (row) => `${(row.share * 100).toFixed(1)} %`, true],
    ["Free", (row) => bytes(row.available), true],
    ["Reads", (row) => `${count(row.reads)}/s`, true],
    ["Writes", (row) => `${count(row.writes)}/s`, true],
    ...(mayChange("osd") ? [["Actions", modes]] : []),
  ], it.pools, "There is no pool yet: ceph osd pool create NAME makes one."))];
}

function groups(it) {
  if (!it) return [];
  const buttons = (row) => h("div", { class: "actions" },
    row.state.includes("inconsistent")
      ? action("Repair", "pg", "Damaged copies are replaced by good ones.", `ceph pg repair ${row.id}`, { prefix: "pg repair", pgid: row.id })
      : action("Recover first", "pg", "Its copies are made before those of other groups.", `ceph pg force-recovery ${row.id}`, { prefix: "pg force-recovery", pgid: [row.id] }));
  const rest = it.unclean - it.groups.length;
  return [card("Groups that are not clean",
    h("p", {}, `${it.unclean} of ${it.total} placement groups are not clean.`),
    table("Groups that are not clean", [
      ["Group", (row) => row.id],
      ["Pool", (row) => row.pool ?? ""],
      ["State", (row) => row.state || "unknown"],
      ["Why", (row) => row.reason],
      ["Missing", (row) => count(row.missing), true],
      ["Up", (row) => row.up],
      ["Acting", (row) => row.acting],
      ...(mayChange("pg") ? [["Actions", buttons]] : []),
    ], it.groups, "All groups are clean: every object has all its copies in place."),
    rest > 0 ? h("p", { class: "dim" }, `${rest} more: ceph pg dump_stuck unclean`) : null)];
}

// ---- Images, clients, events, users, file systems

function images(it) {
  if (!it) return [];
  return [card("Busiest images",
    h("p", { class: "dim" }, "Counted while this is in view; the first numbers come after some seconds."),
    table("Busiest images", [
      ["Image", (row) => [row.pool, row.namespace, row.image].filter(Boolean).join("/")],
      ["Writes", (row) => `${count(row.rates.write_ops)}/s`, true],
      ["Reads", (row) => `${count(row.rates.read_ops)}/s`, true],
      ["Written", (row) => `${bytes(row.rates.write_bytes)}/s`, true],
      ["Read", (row) => `${bytes(row.rates.read_bytes)}/s`, true],
      ["Write latency", (row) => micros(row.rates.write_latency / 1000), true],
      ["Read latency", (row) => micros(row.rates.read_latency / 1000), true],
    ], it.images, it.pools.length ? `No image of ${it.pools.join(", ")} is in use now.` : "No pool is for images (application rbd) yet."))];
}

function clients(it) {
  if (!it) return [];
  const release = (row) => h("div", { class: "actions" },
    action("Release", "osd", "The client may connect and write again. Be sure that it is no longer to be fenced.", `ceph osd blocklist rm ${row.addr}`, { prefix: "osd blocklist", blocklistop: "rm", addr: row.addr }));
  const services = Object.entries(it.services ?? {}).flatMap(([service, of]) =>
    Object.entries(of.daemons).filter(([name]) => name !== "summary").map(([name, daemon]) => ({ service, name, addr: daemon.addr })));
  return [
    card("Clients", h("p", { class: "dim" }, `${it.total} sessions with this monitor`), table("Clients", [
      ["Client", (row) => row.name],
      ["From", (row) => row.from],
      ["Like release", (row) => row.release],
      ["May", (row) => h("code", {}, row.caps)],
    ], it.clients, "No client is connected.")),
    card("Registered services", table("Registered services", [
      ["Service", (row) => row.service], ["Name", (row) => row.name], ["Address", (row) => String(row.addr ?? "")],
    ], services, "No gateway or other service has registered.")),
    card("Blocklist", table("Blocklist", [
      ["Address", (row) => row.addr],
      ["Until", (row) => time(row.until)],
      ...(mayChange("osd") ? [["Actions", release]] : []),
    ], it.blocklist, "No client is fenced off.")),
  ];
}

const SEVERITY = ["debug", "info", "security", "warning", "error"];

function events(it) {
  if (!it) return [];
  return [card("Events", table("Events, the newest first", [
    ["Time", (row) => time(row.time)],
    ["Severity", (row) => h("span", { class: `state ${row.severity >= 4 ? "err" : row.severity === 3 ? "warn" : ""}` }, SEVERITY[row.severity] ?? "")],
    ["From", (row) => row.from],
    ["Channel", (row) => row.channel],
    ["What", (row) => row.text],
  ], it.events, "Nothing was logged yet."))];
}

function users(it) {
  if (!it) return [];
  const caps = (service) => (row) => h("code", {}, row.caps[service] ?? "");
  return [card("Users and capabilities",
    h("p", { class: "dim" }, "Keys are not shown here. A user who may only look:"),
    shell("ceph auth get-or-create client.viewer mon 'allow r' mgr 'allow r'"),
    table("Users and capabilities", [
      ["Name", (row) => row.name], ["Monitors", caps("mon")], ["OSDs", caps("osd")], ["Manager", caps("mgr")], ["Metadata servers", caps("mds")],
    ], it.users, "There is no user."))];
}

function files(it) {
  if (!it) return [];
  const { mdsmap, pools: used } = it.status;
  return [
    card("File systems", it.names.length ? h("p", {}, it.names.join(", ")) : [h("p", { class: "dim" }, "There is no file system yet."), shell("ceph fs volume create cephfs")],
      table("Metadata servers", [
        ["Server", (row) => row.name ?? "none"], ["Rank", (row) => (row.rank ?? "").toString(), true], ["State", (row) => row.state],
      ], mdsmap, "There is no metadata server.")),
    card("Pools of file systems", table("Pools of file systems", [
      ["Pool", (row) => row.name], ["For", (row) => row.type], ["Used", (row) => bytes(row.used), true], ["Free", (row) => bytes(row.avail), true],
    ], used, "No pool belongs to a file system.")),
  ];
}

export const VIEWS = [
  { name: "overview", title: "Overview", show: overview },
  { name: "osds", title: "Hosts and OSDs", show: osds },
  { name: "pools", title: "Pools", show: pools },
  { name: "groups", title: "Groups", show: groups },
  { name: "images", title: "Images", show: images },
  { name: "clients", title: "Clients", show: clients },
  { name: "events", title: "Events", show: events },
  { name: "users", title: "Users", show: users },
  { name: "files", title: "File systems", show: files },
];
