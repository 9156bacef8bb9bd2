// Runs the commands of zones. Every command is a list of words; no shell reads them.

import { PREFIX } from "./settings.js";

const OPTIONS = { superuser: "try", err: "message" };

/** Runs a command and returns its output. Fails with the text of standard error. */
export function run(words, input) {
    const process = window.cockpit.spawn([...PREFIX, ...words], OPTIONS);
    process.input(input ?? "");
    return new Promise((resolve, reject) => {
        process.then(resolve, error => reject(new Error(messageOf(error, words))));
    });
}

/** Runs a command that prints JSON, and returns the value. */
export async function runJson(words) {
    const text = await run(words);
    return text.trim() === "" ? [] : JSON.parse(text);
}

/** Runs a command that prints a JSON object in each line, and calls `take` for each. `end` gets the
 *  error with which the command ended, or null. Returns a function that ends the command. */
export function follow(words, take, end) {
    const process = window.cockpit.spawn([...PREFIX, ...words], OPTIONS);
    let closed = false;
    const lines = splitter(line => {
        let value;
        try {
            value = JSON.parse(line);
        } catch {
            closed || end(new Error(`${words[0]}: a line is no JSON: ${line.slice(0, 80)}`));
            return;
        }
        take(value);
    });
    process.stream(lines);
    process.then(
        () => closed || end(null),
        error => closed || end(new Error(messageOf(error, words))),
    );
    return () => {
        closed = true;
        process.close("terminated");
    };
}

/** Returns a function that takes pieces of text, which may end anywhere, and calls `take` for each
 *  complete line that is not empty. */
export function splitter(take) {
    let rest = "";
    return piece => {
        const lines = (rest + piece).split("\n");
        rest = lines.pop();
        lines.filter(line => line !== "").forEach(take);
    };
}

/** Returns true for the error of a program that is older than this page and lacks a command. */
export function isUnknownCommand(error) {
    return /unknown subcommand|unexpected argument|invalid option|is for root alone|No such file or directory/i.test(error.message);
}

function messageOf(error, words) {
    if (error.problem === "not-found")
        return `${words[0]}: not found. Is the package zones installed?`;
    if (error.problem === "access-denied")
        return `${words[0]}: permission denied`;
    return (error.message ?? `${words[0]} failed`).trim();
}
