# Reads "row DISK ZONES WAY ROUND WALL CPU KIB OTHERS", "point DISK ZONES WAY ROUND K SECONDS",
# "down ZONES SECONDS GAP", "taken ZONES SECONDS" and "left WHAT"; writes tables, JSON and plots. Each
# figure is the median of the rounds.
$1 == "load" { load = $2 " " $3 " " $4 }
$1 == "left" { left = substr($0, 6) }
$1 == "row" {
    set = $2 " " $3
    if (!(set in seen)) { seen[set] = 1; sets[++set_count] = set }
    key = set " " $4
    if (!(key in number)) { ways[set] = ways[set] (ways[set] == "" ? "" : " ") $4 }
    n = ++number[key]
    wall[key, n] = $6; cpu[key, n] = $7; kib[key, n] = $8; others[key, n] = $9
}
$1 == "point" { key = $2 " " $3 " " $4; points[key, $6, ++point_count[key, $6]] = $7 }
$1 == "taken" { running[++running_count] = $2; taken[$2] = $3 }
$1 == "down" {
    down[$2, ++down_count[$2]] = $3
    if ($3 > longest[$2]) longest[$2] = $3
    if ($4 > gap) gap = $4
}

function median(values, key, n,    i, j, swap, sorted) {
    for (i = 1; i <= n; i++) sorted[i] = values[key, i] + 0
    for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++)
        if (sorted[j] < sorted[i]) { swap = sorted[i]; sorted[i] = sorted[j]; sorted[j] = swap }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}
function of(values, key) { return (key in number) ? median(values, key, number[key]) : 0 }
function named(way) {
    if (way == "loop") return "loop of apt-get"
    if (way == "shared") return "zonepatch, shared layers"
    return "zonepatch -P " way " --no-share"
}
function put(text) { printf "%s", text > json }

function table(set,    part, list, count, i, key, w, one) {
    split(set, part, " ")
    printf "\n**%s zones, %s disk**\n\n", part[2], part[1]
    printf "![When how many zones were through](patch-bench-%s-%s.svg)\n\n", part[1], part[2]
    printf "| way | s | s a zone | CPU s a zone | CPU over -P 1 | speed-up over -P 1 | times the loop | MiB on disk | CPUs of others |\n"
    printf "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    count = split(ways[set], list, " ")
    one = set " 1"
    for (i = 1; i <= count; i++) {
        key = set " " list[i]; w = of(wall, key)
        printf "| %s | %.1f | %.2f | %.2f |", named(list[i]), w, w / part[2], of(cpu, key) / part[2]
        if (list[i] ~ /^[0-9]+$/ && (one in number)) printf " %+.0f %% | %.2f |", (of(cpu, key) / of(cpu, one) - 1) * 100, of(wall, one) / w
        else printf " - | - |"
        if (loop_time(set)) printf " %.1f%s |", loop_time(set) / w, ((set " loop") in number) ? "" : " (1)"; else printf " - |"
        printf " %.1f | %.1f |\n", of(kib, key) / 1024, of(others, key)
    }
}
# Seconds of the loop; what was not measured follows from fewer zones on the same disk.
function loop_time(set,    part, other, i) {
    if ((set " loop") in number) return of(wall, set " loop")
    split(set, part, " ")
    for (i = 1; i <= set_count; i++) {
        split(sets[i], other, " ")
        if (other[1] == part[1] && ((sets[i] " loop") in number)) {
            computed = 1
            return of(wall, sets[i] " loop") / other[2] * part[2]
        }
    }
    return 0
}
function plot(set,    part, list, count, i, k, key, most, file, x, y, path, colour) {
    split(set, part, " "); count = split(ways[set], list, " ")
    split("#999999 #2f6f9f #7fb2d6 #3f9f5f #d08a2e #b0483a #7a4fa0", colour, " ")
    file = plots "-" part[1] "-" part[2] ".svg"
    most = loop_time(set)
    for (i = 1; i <= count; i++) if (of(wall, set " " list[i]) > most) most = of(wall, set " " list[i])
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 440\" font-family=\"sans-serif\" font-size=\"13\">\n" > file
    printf "<title>Patching %s zones, %s disk: seconds until so many are through</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", part[2], part[1] > file
    printf "<text x=\"10\" y=\"22\" font-size=\"16\">Patching %s zones, %s disk, %d CPUs: seconds until so many are through</text>\n", part[2], part[1], cpus > file
    for (i = 0; i <= 4; i++) {
        y = 390 - i * 85
        printf "<path d=\"M60 %dH560\" stroke=\"#dddddd\"/><text x=\"54\" y=\"%d\" text-anchor=\"end\">%.0f s</text>\n", y, y + 4, most * i / 4 > file
        x = 60 + i * 125
        printf "<text x=\"%d\" y=\"408\" text-anchor=\"middle\">%.0f</text>\n", x, part[2] * i / 4 > file
    }
    printf "<text x=\"310\" y=\"430\" text-anchor=\"middle\">zones</text>\n" > file
    if (!((set " loop") in number) && most) {
        printf "<path d=\"M60 390L560 %.1f\" stroke=\"#999999\" stroke-dasharray=\"4\" fill=\"none\"/>", 390 - 340 * loop_time(set) / most > file
        printf "<path d=\"M575 60h20\" stroke=\"#999999\" stroke-dasharray=\"4\"/><text x=\"600\" y=\"64\">loop (computed)</text>\n" > file
    }
    for (i = 1; i <= count; i++) {
        key = set " " list[i]; path = "M60 390"
        for (k = 1; ((key, k) in point_count); k++) {
            x = 60 + 500 * k / part[2]
            y = 390 - 340 * median_point(key, k) / most
            path = path sprintf("L%.1f %.1f", x, y)
        }
        printf "<path d=\"%s\" stroke=\"%s\" stroke-width=\"2\" fill=\"none\"/>\n", path, colour[(i - 1) % 7 + 1] > file
        y = 80 + i * 22
        printf "<path d=\"M575 %dh20\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"600\" y=\"%d\">%s</text>\n", y - 4, colour[(i - 1) % 7 + 1], y, (list[i] ~ /^[0-9]/ ? "P = " list[i] : (list[i] == "loop" ? "loop of apt-get" : "shared layers")) > file
    }
    printf "</svg>\n" > file
    close(file)
}
function median_point(key, k,    i, n, flat) {
    n = point_count[key, k]
    for (i = 1; i <= n; i++) flat[key, i] = points[key, k, i]
    return median(flat, key, n)
}
# goal TEXT VALUE WANTED MET
function goal(text, value, wanted, met) {
    printf "| %s | %s | %s | %s |\n", text, value, wanted, met ? "yes" : "no"
    put(sprintf("%s\n  {\"goal\": \"%s\", \"measured\": \"%s\", \"wanted\": \"%s\", \"met\": %s}", (goals++ ? "," : ""), text, value, wanted, met ? "true" : "false"))
}
END {
    printf "Measured on %d CPUs, kernel %s, load %s at the start, in %d s, %d round%s. %d %s packages and\n", cpus, kernel, load, seconds, rounds, rounds == 1 ? "" : "s", packages, real == "yes" ? "of Debian's" : "small made"
    printf "one of 15 MB. The last column says how many CPUs everything else took meanwhile.\n"
    put(sprintf("{\"cpus\": %d, \"kernel\": \"%s\", \"load\": \"%s\", \"rounds\": %d, \"seconds\": %d, \"rows\": [", cpus, kernel, load, rounds, seconds))
    for (s = 1; s <= set_count; s++) {
        table(sets[s]); plot(sets[s])
        split(sets[s], part, " "); count = split(ways[sets[s]], list, " ")
        for (i = 1; i <= count; i++) {
            key = sets[s] " " list[i]
            put(sprintf("%s\n  {\"disk\": \"%s\", \"zones\": %d, \"way\": \"%s\", \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"mib_on_disk\": %.1f, \"cpus_of_others\": %.2f, \"through_after\": [",
                (rows++ ? "," : ""), part[1], part[2], list[i], of(wall, key), of(cpu, key), of(kib, key) / 1024, of(others, key)))
            for (k = 1; ((key, k) in point_count); k++) put(sprintf("%s%.3f", (k > 1 ? ", " : ""), median_point(key, k)))
            put("]}")
        }
    }
    if (left != "nothing") printf "\nLeft out, as there was no time: %s.\n", left
    if (computed) printf "\n(1) The loop's time follows from that of fewer zones.\n"
    put("\n], \"running\": [")
    for (i = 1; i <= running_count; i++) {
        at = running[i]
        put(sprintf("%s\n  {\"zones\": %d, \"seconds\": %.3f, \"downtime\": [", (i > 1 ? "," : ""), at, taken[at]))
        for (k = 1; k <= down_count[at]; k++) put(sprintf("%s%.3f", (k > 1 ? ", " : ""), down[at, k]))
        put("]}")
    }
    put("], \"goals\": [")
    printf "\n| goal | measured | wanted | reached |\n|---|--:|--:|---|\n"
    for (s = 1; s <= set_count; s++) {
        set = sets[s]; split(set, part, " "); at = part[2] " zones, " part[1] " disk: "
        if (((set " 1") in number) && ((set " " cpus) in number)) {
            ratio = of(wall, set " 1") / of(wall, set " " cpus)
            goal(at "speed-up of -P " cpus " over -P 1", sprintf("%.2f", ratio), sprintf(">= %.2f", 0.85 * cpus), ratio >= 0.85 * cpus)
            over = of(cpu, set " " cpus) / of(cpu, set " 1") * 100 - 100
            goal(at "CPU of -P " cpus " over -P 1", sprintf("%+.1f %%", over), "< 10 %", over < 10)
        }
        if (((set " 1") in number) && ((set " loop") in number)) {
            ratio = of(wall, set " loop") / of(wall, set " 1")
            goal(at "-P 1 --no-share against the loop", sprintf("%.1f x", ratio), ">= 2 x", ratio >= 2)
        }
        if (part[2] >= 50 && ((set " shared") in number)) {
            w = of(wall, set " shared")
            goal(at "shared, in all", sprintf("%.1f s", w), "<= 15 s", w <= 15)
            if (loop_time(set)) goal(at "shared against the loop", sprintf("%.0f x", loop_time(set) / w), ">= 20 x", loop_time(set) / w >= 20)
            for (o = 1; o <= set_count; o++) {
                split(sets[o], other, " ")
                if (other[1] == part[1] && ((sets[o] " 1") in number)) {
                    ratio = of(kib, set " shared") / (of(kib, sets[o] " 1") / other[2])
                    goal(at "disk, against one patch", sprintf("%.2f x", ratio), "<= 2 x", ratio <= 2)
                }
            }
        }
    }
    for (i = 1; i <= running_count; i++) {
        at = running[i]
        if (at >= 50) goal(at " running zones patched and rebooted, in all", sprintf("%.1f s", taken[at]), "<= 15 s", taken[at] <= 15)
        goal("downtime of a running zone, the longest of " at, sprintf("%.2f s", longest[at]), "<= 0.3 s", longest[at] <= 0.3)
    }
    if (running_count) printf "\nThe running zones answered all the time until then, but for %.0f ms at most.\n", gap * 1000
    put("\n]}\n")
}
