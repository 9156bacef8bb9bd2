// Figures and times as text.

const UNITS = ["B", "K", "M", "G", "T", "P"];

/** Returns bytes with a unit: 1536 is "1.5 K". */
export function bytes(count) {
    if (count === null || count === undefined)
        return "-";
    let unit = 0;
    while (count >= 1024 && unit < UNITS.length - 1) {
        count /= 1024;
        unit++;
    }
    return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${UNITS[unit]}`;
}

/** Returns millionths of a CPU as percent of one CPU. */
export function percent(millionths) {
    return millionths === null || millionths === undefined ? "-" : `${(millionths / 1e4).toFixed(1)} %`;
}

/** Returns a time in seconds since 1970 in the form of the reader's country. */
export function when(seconds) {
    return seconds ? new Date(seconds * 1000).toLocaleString() : "-";
}

/** Returns a length of time in the two largest units: 3700 is "1 h 1 min". */
export function span(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const at = units.findIndex(([, size]) => seconds >= size);
    if (at < 0)
        return "0 s";
    const parts = [];
    for (const [name, size] of units.slice(at, at + 2)) {
        const count = Math.floor(seconds / size);
        seconds -= count * size;
        if (count > 0)
            parts.push(`${count} ${name}`);
    }
    return parts.join(" ");
}

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

/** Returns a text of a zone, such as the name of a file, with control characters and characters that
 *  change the direction of writing as escapes. Two names that differ look different. */
export function visible(text) {
    return [...text].map(c => {
        const code = c.codePointAt(0);
        const hidden = code < 0x20 || (code >= 0x7f && code < 0xa0) || BIDI.test(c);
        return hidden ? `\\u{${code.toString(16)}}` : c;
    }).join("");
}

const natural = new Intl.Collator("en", { numeric: true });

/** Compares zone names: the global zone first, and web2 before web10. */
export function byName(a, b) {
    return (a !== "global") - (b !== "global") || natural.compare(a, b);
}
