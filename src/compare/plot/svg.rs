//! SVG as text: shapes at places, everything escaped.

use std::fmt::Write as _;

/// A place, in pixels from the upper left.
pub(super) type Place = (f64, f64);

/// A picture that is being drawn.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    height: f64,
    width: f64,
    title: String,
}

/// Which end of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture; the title is for those who cannot see it.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Self { body: String::new(), height, width, title: title.to_owned() }
    }

    pub(super) fn line(&mut self, from: Place, to: Place, class: &str) {
        let ((x1, y1), (x2, y2), class) = (from, to, escape(class));
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        ));
    }

    /// A rectangle that is filled with a pattern of the page.
    pub(super) fn bar(
        &mut self,
        (x, y): Place,
        (width, height): Place,
        pattern: &str,
        class: &str,
    ) {
        let (pattern, class) = (escape(pattern), escape(class));
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="url(#{pattern})" class="bar {class}"/>"#
        ));
    }

    pub(super) fn text(&mut self, (x, y): Place, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Lines from place to place.
    pub(super) fn path(&mut self, places: &[Place], dashes: &str, class: &str) {
        let places: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (places, dashes, class) = (places.join(" "), escape(dashes), escape(class));
        self.add(format_args!(
            r#"<polyline points="{places}" stroke-dasharray="{dashes}" class="curve {class}"/>"#
        ));
    }

    /// A closed shape around a place.
    pub(super) fn mark(&mut self, (x, y): Place, shape: &[Place], class: &str) {
        let at = |(dx, dy): &Place| format!("{:.1},{:.1}", x + dx, y + dy);
        let (points, class) = (shape.iter().map(at).collect::<Vec<_>>().join(" "), escape(class));
        self.add(format_args!(r#"<polygon points="{points}" class="mark {class}"/>"#));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, height, width, title } = self;
        let title = escape(&title);
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }
}

/// Text as it may stand in an element or between double quotes, in HTML and in SVG.
///
/// What XML does not allow at all, control characters but for spaces, is left out.
pub(in super::super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        let text = "<script>alert('x' & \"y\")</script>\u{0}\u{1b}[2J";
        let safe = "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;[2J";
        assert_eq!(escape(text), safe);
        assert_eq!(escape("µs – 10 %"), "µs – 10 %");
    }

    #[test]
    fn whatever_is_drawn_is_escaped() {
        let evil = "\"/><script>";
        let mut svg = Svg::new(10.0, 10.0, evil);
        svg.line((0.0, 0.0), (1.0, 1.0), evil);
        svg.bar((0.0, 0.0), (1.0, 1.0), evil, evil);
        svg.text((0.0, 0.0), Anchor::Start, evil);
        svg.path(&[(0.0, 0.0)], evil, evil);
        svg.mark((0.0, 0.0), &[(0.0, 0.0)], evil);
        let drawn = svg.finish();
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert_eq!(drawn.matches("&quot;/&gt;&lt;script&gt;").count(), 9, "{drawn}");
    }
}
