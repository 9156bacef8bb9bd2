// A terminal in the zone: a login by zlogin, or the zone's console.

import { h } from "./dom.js";
import { PREFIX } from "./settings.js";
import { listen, store } from "./store.js";

/** Colours of the terminal: those of the page would not be readable for programs. */
const THEME = { background: "#000000", foreground: "#e8e8e8" };

export function consoleTab(pane, name) {
    const box = h("div", { id: "terminal", "aria-label": `Terminal in ${name}` });
    const kind = h("select", { "aria-label": "Kind of terminal", "data-act": "terminal", onchange: () => open() },
        h("option", { value: "login" }, "Login as root"), h("option", { value: "console" }, "Console of the zone"));
    const again = h("button", { type: "button", "data-act": "connect", onclick: () => open() }, "Connect again");
    pane.replaceChildren(h("div", { class: "card" }, h("div", { class: "bar" }, kind, again, h("span", { class: "dim" }, "Control-D or exit ends a login.")), box));
    const terminal = new window.Terminal({ fontSize: 14, cursorBlink: true, theme: THEME, screenReaderMode: true });
    const fit = new window.FitAddon.FitAddon();
    terminal.loadAddon(fit);
    terminal.open(box);
    fit.fit();
    let channel = null;
    function open() {
        channel?.close();
        terminal.reset();
        const words = kind.value === "console" ? ["zlogin", "-C", name] : ["zlogin", name];
        const own = window.cockpit.channel({
            payload: "stream", spawn: [...PREFIX, ...words], environ: ["TERM=xterm-256color"], pty: true, superuser: "try",
            window: { rows: terminal.rows, cols: terminal.cols },
        });
        own.addEventListener("message", (_, data) => own === channel && terminal.write(data));
        own.addEventListener("close", (_, why) => {
            if (own === channel)
                terminal.write(`\r\n[ended${why.problem ? `: ${why.problem}` : ""}${why["exit-status"] ? `: status ${why["exit-status"]}` : ""}]\r\n`);
        });
        channel = own;
        terminal.focus();
    }
    const state = () => store.zones.get(name)?.state;
    if (state() === "running")
        open();
    else
        terminal.write("The zone does not run. Boot it, then connect again.\r\n");
    let last = state();
    const unlisten = listen(() => {
        if (state() === "running" && last !== "running" && kind.value === "login")
            open();
        last = state();
    });
    terminal.onData(data => channel?.send(data));
    terminal.onResize(({ rows, cols }) => channel?.control({ command: "options", window: { rows, cols } }));
    const onresize = () => fit.fit();
    window.addEventListener("resize", onresize);
    // The browser test reads the terminal's text and colours.
    box.terminal = terminal;
    return () => {
        unlisten();
        window.removeEventListener("resize", onresize);
        channel?.close();
        terminal.dispose();
    };
}
