//! XML output from a JSON value, with the element names of Ceph's tools.

use serde_json::Value;

const INDENT: usize = 4;

/// Element names of lists that are not the list's name without its `s`.
const ELEMENTS: [(&str, &str); 22] = [
    ("addrvec", "entity_addr"),
    ("children", "child"),
    ("completed", "event"),
    ("detail", "item"),
    ("flags_set", "flag"),
    ("modules", "module"),
    ("nodes", "item"),
    ("num_pg_by_state", "state"),
    ("osd_info", "osd"),
    ("osd_xinfo", "xinfo"),
    ("osds", "osd_info"),
    ("persistent", "feature"),
    ("optional", "feature"),
    ("pgs_by_state", "pgs_by_state_element"),
    ("plans", "plan"),
    ("quorum", "rank"),
    ("quorum_names", "id"),
    ("state", "state"),
    ("stray", "osd"),
    ("steps", "step"),
    ("snaps", "interval"),
    ("pool_list", "pool_name"),
];

/// Names of the outermost elements; all others are the last word of the command.
const SECTIONS: [(&str, &str); 14] = [
    ("df", "stats"),
    ("osd df", "osds"),
    ("osd dump", "osdmap"),
    ("osd getmaxosd", "getmaxosd"),
    ("osd lspools", "pools"),
    ("osd pool ls", "pool_list"),
    ("osd stat", "osdmap"),
    ("osd tree", "tree"),
    ("mon dump", "monmap"),
    ("mon stat", "mon_stat"),
    ("mgr dump", "mgrmap"),
    ("pg dump", "pg_info"),
    ("pg stat", "pg_info"),
    ("fs dump", "fsmap"),
];

/// The name of the outermost element of a command's answer.
pub fn section(prefix: &str) -> String {
    let known = SECTIONS.iter().find(|(known, _)| *known == prefix).map(|(_, name)| *name);
    element_name(known.unwrap_or_else(|| prefix.split(' ').next_back().unwrap_or("answer")))
}

/// A value as an element; with `pretty`, one element per line.
pub fn write(name: &str, value: &Value, pretty: bool) -> String {
    let mut text = String::new();
    element(&mut text, name, value, pretty.then_some(0));
    text
}

fn element(text: &mut String, name: &str, value: &Value, depth: Option<usize>) {
    let indent = |text: &mut String| {
        let blanks = depth.unwrap_or(0) * INDENT;
        text.extend(std::iter::repeat_n(' ', blanks));
    };
    let end = |text: &mut String| {
        if depth.is_some() {
            text.push('\n');
        }
    };
    let below = depth.map(|depth| depth + 1);
    indent(text);
    match value {
        Value::Object(fields) => {
            *text += &format!("<{name}>");
            end(text);
            for (field, value) in fields {
                element(text, &element_name(field), value, below);
            }
            indent(text);
        }
        Value::Array(items) => {
            *text += &format!("<{name}>");
            end(text);
            let inner = item_name(name);
            for item in items {
                element(text, &inner, item, below);
            }
            indent(text);
        }
        Value::Null => *text += &format!("<{name}>"),
        Value::String(words) => *text += &format!("<{name}>{}", escaped(words)),
        number => *text += &format!("<{name}>{number}"),
    }
    *text += &format!("</{name}>");
    end(text);
}

fn item_name(list: &str) -> String {
    let known = ELEMENTS.iter().find(|(known, _)| *known == list).map(|(_, name)| *name);
    match (known, list.strip_suffix('s')) {
        (Some(name), _) => name.to_owned(),
        (None, Some(single)) if !single.is_empty() => single.to_owned(),
        _ => "item".to_owned(),
    }
}

/// A valid element name for a key, which may be an address or a number.
fn element_name(key: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut name: String =
        key.trim_end_matches([':', ' ']).chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '"' => safe += "&quot;",
            '\'' => safe += "&apos;",
            // XML forbids these characters, even escaped.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_have_named_elements_and_keys_become_names() {
        let value = json!({ "osds": [{ "osd": 0, "in": true }], "1.2.3.4:0/5": null });
        assert_eq!(
            write("osdmap", &value, false),
            "<osdmap><osds><osd_info><osd>0</osd><in>true</in></osd_info></osds>\
             <_1.2.3.4_0_5></_1.2.3.4_0_5></osdmap>"
        );
    }

    #[test]
    fn text_cannot_break_out_of_its_element() {
        let value = json!({ "name": "<a> & \"b\"\u{1}" });
        assert_eq!(
            write("x", &value, true),
            "<x>\n    <name>&lt;a&gt; &amp; &quot;b&quot;?</name>\n</x>\n"
        );
    }

    #[test]
    fn an_answer_is_called_as_ceph_calls_it() {
        let names = ["status", "osd dump", "osd tree", "df", "osd pool ls", "balancer status"];
        let sections = names.map(section);
        assert_eq!(sections, ["status", "osdmap", "tree", "stats", "pool_list", "status"]);
    }
}
