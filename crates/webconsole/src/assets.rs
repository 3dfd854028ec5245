//! The files of the page, as they are in the source tree.

use web::{Response, Status};

/// Where scripts, styles and data may come from: this server alone, and nothing that is written in the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const FILES: [(&str, &str, &str); 6] = [
    ("/", HTML, include_str!("../page/index.html")),
    ("/console.css", CSS, include_str!("../page/console.css")),
    ("/console.js", SCRIPT, include_str!("../page/console.js")),
    ("/views.js", SCRIPT, include_str!("../page/views.js")),
    ("/plot.js", SCRIPT, include_str!("../page/plot.js")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
];

/// The file of a path.
pub(crate) fn find(path: &str) -> Option<Response> {
    let (_, content_type, text) = FILES.iter().find(|(known, _, _)| *known == path)?;
    Some(Response::new(Status::Ok, content_type, *text))
}

/// The response with the header fields that all responses of the console have.
pub(crate) fn secured(mut response: Response) -> Response {
    let fields = [
        ("Content-Security-Policy", POLICY),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ];
    let fields = fields.map(|(name, value)| (name, value.to_owned()));
    response.fields.extend(fields);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_has_nothing_inline() {
        for (path, content_type, text) in FILES {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
            if content_type == HTML {
                assert!(!text.contains("style=") && !text.contains(" onclick="), "{path}");
            }
        }
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 100_000, "the page has {bytes} bytes, and that is before compression");
    }
}
