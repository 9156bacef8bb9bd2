// The scale of the time slider. It is logarithmic in the age of a snapshot: an hour of today has as
// much room as a week of last month. On a linear scale of a year, today would be one pixel.

/** Positions of the slider: 0 is the oldest snapshot, STEPS is now. */
export const STEPS = 1000;

/** Age in seconds that still counts as now. */
const UNIT = 60;

/** Returns the position of an age in seconds on a scale whose oldest snapshot has the age `most`. */
export function position(age, most) {
    const size = value => Math.log1p(Math.max(0, value) / UNIT);
    const whole = size(most);
    return whole === 0 ? 0 : Math.round(STEPS * (1 - size(age) / whole));
}

/** Returns the places of snapshots on the scale, oldest first. No two have the same position, as far
 *  as there is room, so that each can be chosen. */
export function places(created, now) {
    const most = Math.max(0, ...created.map(time => now - time));
    const all = created.map(time => position(now - time, most));
    for (let at = 1; at < all.length; at++)
        all[at] = Math.min(STEPS - 1, Math.max(all[at], all[at - 1] + 1));
    for (let at = all.length - 2; at >= 0; at--)
        all[at] = Math.max(0, Math.min(all[at], all[at + 1] - 1));
    return all;
}

/** Returns the index of the snapshot nearest to a position, or `places.length` for now. */
export function nearest(places, at) {
    let best = places.length;
    let distance = STEPS - at;
    places.forEach((place, index) => {
        if (Math.abs(place - at) < distance) {
            best = index;
            distance = Math.abs(place - at);
        }
    });
    return best;
}

/** Returns marks for ages that people name, as far as the oldest snapshot is older: label and
 *  position. */
export function marks(most) {
    const ages = [["1 h", 3600], ["6 h", 21600], ["1 day", 86400], ["1 week", 604800], ["1 month", 2629800], ["1 year", 31557600]];
    return ages.filter(([, age]) => age < most).map(([label, age]) => [label, position(age, most)]);
}
