/*
 * test_watch.c - a change of content is told once, however it was made; what is no change of content is not.
 *
 * In most tests slow looks are an hour away, so that it is the kernel's reports that are found or missed.
 */
#include "net.h"
#include "proxy/watch.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define QUIET_MS 30

static const struct watch_times by_reports = {.quiet_ms = QUIET_MS, .at_most_ms = 200, .look_ms = 3600000};
static const struct watch_times by_looks = {.quiet_ms = QUIET_MS, .at_most_ms = 200, .look_ms = 50};

static char directory[40];
static struct watch *watch;
static int told;
static char told_path[300];

static void on_changed(void *arg, const char *path)
{
    (void)arg;
    told++;
    snprintf(told_path, sizeof told_path, "%s", path);
}

/* ---- the file system -------------------------------------------------------------------------- */

/* A path below the test's directory; lives until the fourth call after it. */
static const char *at(const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void put(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", name);
    close(fd);
}

static void make_folder(const char *name)
{
    cr_assert_eq(mkdir(at(name), 0755), 0, "%s", name);
}

static void make_link(const char *text, const char *name)
{
    cr_assert_eq(symlink(text, at(name)), 0, "%s", name);
}

static void rename_to(const char *from, const char *to)
{
    cr_assert_eq(rename(at(from), at(to)), 0, "%s to %s", from, to);
}

static void drop(const char *name)
{
    cr_assert_eq(remove(at(name)), 0, "%s", name);
}

/* ---- begin and end ---------------------------------------------------------------------------- */

static void begin(void)
{
    net_begin();
    strcpy(directory, "/tmp/einmal-watch-XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
    told = 0;
}

static void end(void)
{
    char command[100];
    watch_free(watch);
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    cr_expect_eq(system(command), 0);
    net_end();
}

static void start(const struct watch_times *times, const char *name)
{
    const char *path = at(name);
    watch = watch_new(base, times, on_changed, NULL);
    cr_assert(watch_set(watch, &path, 1), "a file that was not watched before");
}

/* Told once since the last time, and no more within a while. */
static void expect_told(const char *what)
{
    cr_expect(NET_UNTIL(told > 0), "%s: is told", what);
    net_run(3 * QUIET_MS);
    cr_expect_eq(told, 1, "%s: told %d times", what, told);
    told = 0;
}

static void expect_silence(const char *what)
{
    net_run(4 * QUIET_MS);
    cr_expect_eq(told, 0, "%s: told %d times", what, told);
    told = 0;
}

TestSuite(watch, .init = begin, .fini = end);

/* ---- ordinary files --------------------------------------------------------------------------- */

Test(watch, written_in_place)
{
    put("f", "one");
    start(&by_reports, "f");
    expect_silence("nothing happened");
    put("f", "two");
    expect_told("another content");
    cr_expect_str_eq(told_path, at("f"));
    put("f", "two!");
    expect_told("longer");
    put("f", "two.");
    expect_told("as long as before");
    put("f", "");
    expect_told("empty");
}

Test(watch, the_same_content_is_no_change)
{
    put("f", "one");
    start(&by_reports, "f");
    put("f", "one");
    expect_silence("written again");
    put("new", "one");
    rename_to("new", "f");
    expect_silence("renamed over by the same");
    cr_assert_eq(chmod(at("f"), 0600), 0);
    expect_silence("other permissions");
    put("f", "two");
    expect_told("and still watched");
}

Test(watch, renamed_over_as_editors_do)
{
    put("f", "one");
    start(&by_reports, "f");
    put(".f.swp", "two");
    rename_to(".f.swp", "f");
    expect_told("renamed over");
    rename_to("f", "f~"); /* with a backup */
    put("f", "three");
    expect_told("written anew beside a backup");
    put("f", "four");
    expect_told("the new one is watched");
    put("f~", "five");
    expect_silence("the backup is not");
}

Test(watch, gone_and_come_back)
{
    put("f", "one");
    start(&by_reports, "f");
    drop("f");
    expect_told("gone");
    put("g", "x");
    expect_silence("another one");
    put("f", "one");
    expect_told("come back");
    drop("f");
    put("f", "one");
    expect_silence("back before anybody looked");
}

Test(watch, missing_at_first)
{
    start(&by_reports, "f");
    expect_silence("missing is what was found");
    put("f", "one");
    expect_told("come");
}

/* The longest time between two writes. What is written differs in each try: the same again would be no change. */
static int64_t write_in_pieces(int try)
{
    int64_t longest = 0, last = monotonic_ms();
    char text[40];
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "piece %d of try %d", i, try);
        put("f", text);
        net_run(QUIET_MS / 5);
        int64_t now = monotonic_ms();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    return longest;
}

Test(watch, many_writes_are_one_change)
{
    put("f", "one");
    start(&by_reports, "f");
    int tries = 0;
    while (write_in_pieces(tries) >= QUIET_MS) { /* on a busy machine we may have been quiet for too long */
        cr_assert_lt(++tries, 100);
        net_run(4 * QUIET_MS);
        told = 0;
    }
    expect_told("written in pieces");
}

Test(watch, writing_without_end_does_not_hold_it_up)
{
    put("f", "one");
    start(&by_reports, "f");
    int64_t began = monotonic_ms();
    for (int i = 0; !told && monotonic_ms() < began + PATIENCE_MS; i++) {
        put("f", i % 2 ? "a" : "b");
        net_run(QUIET_MS / 6);
    }
    cr_expect_geq(told, 1, "at_most_ms counts from the first");
}

Test(watch, what_happens_to_others_is_passed_over)
{
    put("f", "one");
    start(&by_reports, "f");
    put("f", "two");
    int64_t began = monotonic_ms();
    for (int i = 0; !told && monotonic_ms() < began + by_reports.at_most_ms * 20; i++) {
        put("log", i % 2 ? "a" : "b");
        net_run(QUIET_MS / 6);
    }
    cr_expect_eq(told, 1, "a busy neighbour prolongs nothing");
    told = 0;
    put("ff", "one");
    put(".f", "one");
    expect_silence("names that only look alike");
}

/* ---- links ------------------------------------------------------------------------------------ */

/* What kubelet does for a ConfigMap or a Secret (AtomicWriter.Write), step by step. */
static void kubelet_writes(const char *stamp, const char *before, const char *text)
{
    char name[100], file[200];
    snprintf(name, sizeof name, "volume/..2026_01_02_15_04_%s", stamp);
    make_folder(name); /* 5. a directory of its own, named after the time */
    cr_assert_eq(chmod(at(name), 0755), 0);
    snprintf(file, sizeof file, "%s/einmal.yaml", name); /* 6. all files in it */
    put(file, text);
    cr_assert_eq(chmod(at(file), 0644), 0);
    make_link(strrchr(name, '/') + 1, "volume/..data_tmp"); /* 8. a link to it beside the one in force */
    rename_to("volume/..data_tmp", "volume/..data");        /* 9. takes its place */
    if (!before)
        make_link("..data/einmal.yaml", "volume/einmal.yaml"); /* 10. what users see */
    if (before) {                                              /* 12. the old directory goes */
        snprintf(name, sizeof name, "volume/..2026_01_02_15_04_%s", before);
        snprintf(file, sizeof file, "%s/einmal.yaml", name);
        drop(file);
        drop(name);
    }
}

Test(watch, as_kubelet_writes_a_configmap)
{
    make_folder("volume");
    kubelet_writes("01.1", NULL, "one");
    start(&by_reports, "volume/einmal.yaml");
    expect_silence("nothing happened");
    kubelet_writes("02.2", "01.1", "two");
    expect_told("first change");
    kubelet_writes("03.3", "02.2", "three");
    expect_told("second change: the new directory is watched, too");
    kubelet_writes("04.4", "03.3", "three");
    expect_silence("another key of the map has changed");
    kubelet_writes("05.5", "04.4", "five");
    expect_told("after that");
}

/* The volume itself is mounted or linked somewhere else, and the path leads through it. */
Test(watch, through_links_to_folders)
{
    make_folder("volume");
    make_folder("etc");
    kubelet_writes("01.1", NULL, "one");
    make_link("../volume", "etc/config");
    make_link("config/einmal.yaml", "etc/einmal.yaml");
    start(&by_reports, "etc/einmal.yaml");
    kubelet_writes("02.2", "01.1", "two");
    expect_told("behind two links more");
    make_folder("other");
    put("other/einmal.yaml", "three");
    make_link("../other", "etc/config_tmp");
    rename_to("etc/config_tmp", "etc/config");
    expect_told("a link in the middle was moved");
    put("other/einmal.yaml", "four");
    expect_told("where it leads now");
    kubelet_writes("03.3", "02.2", "five");
    expect_silence("where it led before");
}

Test(watch, absolute_links_and_links_in_a_circle)
{
    char target[300];
    make_folder("a");
    put("a/f", "one");
    snprintf(target, sizeof target, "%s", at("a/f"));
    make_link(target, "f");
    start(&by_reports, "f");
    put("a/f", "two");
    expect_told("through an absolute link");
    put("a/new", "three");
    rename_to("a/new", "a/f");
    expect_told("renamed over behind it");
    drop("f");
    make_link("f", "f");
    expect_told("leads nowhere now");
    drop("f");
    put("f", "four");
    expect_told("a file of its own");
}

/* ---- what the kernel does not report ---------------------------------------------------------- */

Test(watch, looks_find_what_is_not_reported)
{
    make_folder("a");
    make_folder("b");
    put("a/f", "one");
    put("b/f", "two");
    start(&by_looks, "a/f");
    rename_to("a", "old"); /* directories above are not watched */
    rename_to("b", "a");
    expect_told("another directory in its place");
    drop("a/f");
    drop("a");
    expect_told("gone with its directory");
    make_folder("a");
    put("a/f", "three");
    expect_told("come back with it");
}

/* As `docker run -v FILE:FILE` does. Written in place it is the same file under another name; the kernel reports it for
 * the file, not for our directory. */
Test(watch, a_file_that_is_mounted_alone)
{
    put("outside", "one");
    put("inside", "");
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(at("outside"), at("inside"), NULL, MS_BIND, NULL) != 0)
        cr_skip_test("no right to mount");
    start(&by_reports, "inside");
    put("outside", "two");
    expect_told("written from outside");
    put("outside", "three");
    expect_told("once more");
    cr_assert_eq(umount(at("inside")), 0);
}

/* ---- the list of files ------------------------------------------------------------------------ */

Test(watch, several_files_that_change_together_are_one_change)
{
    put("key", "one");
    put("crt", "one");
    const char *key = at("key"), *paths[] = {key, NULL, at("crt"), key};
    watch = watch_new(base, &by_reports, on_changed, NULL);
    cr_expect(watch_set(watch, paths, 4));
    put("crt", "two");
    put("key", "two");
    expect_told("certificate and key");
    cr_expect_str_eq(told_path, at("key"), "the first of the list");
}

Test(watch, which_files_can_be_changed)
{
    put("f", "one");
    put("g", "one");
    start(&by_reports, "f");
    const char *both[] = {at("g"), at("f")};
    cr_expect(watch_set(watch, both, 2), "g is new");
    cr_expect_not(watch_set(watch, both, 2), "both are known");
    cr_expect_not(watch_set(watch, both, 1), "one less");
    put("f", "two");
    expect_silence("f is not watched any more");
    put("g", "two");
    expect_told("g is");
    cr_expect_not(watch_set(watch, NULL, 0));
    put("g", "three");
    expect_silence("nothing is watched");
    cr_expect_not(net_spins(50));
}

Test(watch, what_was_looked_at_is_no_news)
{
    put("f", "one");
    start(&by_reports, "f");
    put("f", "two");
    watch_look(watch);
    expect_silence("known before it was told");
    put("f", "three");
    expect_told("the next one");
}

Test(watch, what_is_no_file)
{
    cr_assert_eq(mkfifo(at("f"), 0600), 0);
    start(&by_reports, "f"); /* does not wait for a writer */
    drop("f");
    make_folder("f");
    expect_told("a directory now");
    put("f/x", "one");
    expect_silence("what is in it is no content");
    drop("f/x");
    drop("f");
    put("f", "one");
    expect_told("a file at last");
    char path[5000] = "";
    while (strlen(path) < 4500)
        strcat(path, "/aaaaaaaaaaaaaaa");
    const char *paths[] = {path, ""};
    cr_expect(watch_set(watch, paths, 2), "too long for anybody, and empty");
    expect_silence("neither can be there");
}

static void free_at_change(void *arg, const char *path)
{
    (void)arg, (void)path;
    watch_free(watch);
    watch = NULL;
}

Test(watch, may_be_freed_when_it_tells)
{
    const char *path = at("f");
    put("f", "one");
    watch = watch_new(base, &by_reports, free_at_change, NULL);
    watch_set(watch, &path, 1);
    put("f", "two");
    cr_expect(NET_UNTIL(!watch));
    net_run(QUIET_MS);
}
