/* A small scheduler that is held to the scenarios without Python:

       gcc -O1 -Wall -o scheduler scheduler.c && ./scheduler scenarios/S-*.txt

   It reads the form of lines (README.md), decides each step by itself, and looks whether what it decided is among the
   decisions that are legal there.  Exit status: 0 all passed, 1 some failed, 2 a file cannot be read.

   -DCHUNK=n      it never runs more than n tokens of a prompt in a step, unless full chunks are claimed: legal too
   -DFAULT=NAME   it has one bug, of those listed below */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fault {
    NONE,
    BUDGET_OFF_BY_ONE,     /* a step has room for one token more */
    BLOCKS_ROUNDED_DOWN,   /* a block that is not full is not taken */
    PROMPTS_FIRST,         /* prompts take the budget before decodes do */
    LAST_COMES_FIRST,      /* the queue is a stack */
    PRIORITY_IGNORED,      /* the queue is in order of arrival, whatever the policy */
    HEAD_IS_PASSED,        /* an admission round goes past who does not fit */
    HEAD_BLOCKS,           /* an admission round ends at who does not fit */
    SEATS_FORGOTTEN,       /* admissions look at blocks alone */
    WATERMARK_FORGOTTEN,   /* the last blocks are given to who waits */
    WATERMARK_WHEN_IDLE,   /* the watermark is kept though nobody runs */
    OLDEST_IS_VICTIM,      /* who was admitted first gives way */
    VICTIM_KEEPS_POSITION, /* a victim goes on where it was, though its blocks are gone */
    VICTIM_LOSES_OUTPUTS,  /* a victim starts with its prompt alone */
    VICTIM_GOES_LAST,      /* a victim stands behind whoever came meanwhile */
    CANCEL_LEAKS,          /* blocks of who is cancelled are lost */
    END_LEAKS,             /* blocks of who has ended are lost */
    STOP_IGNORED           /* who was stopped by the model goes on */
};

#ifndef FAULT
#define FAULT NONE
#endif
#ifndef CHUNK
#define CHUNK 1000000
#endif
#define BUG(name) (FAULT == name)

enum { NAME = 32, MOST = 16, NODES = 512, CHOICES = 64 };

/* --- what a file says --- */

struct run { char id[NAME]; int start, tokens, samples, held; };

struct decision {
    char preempted[MOST][NAME], admitted[MOST][NAME], ends[MOST][NAME];
    struct run runs[MOST];
    int preemptions, admissions, rows, ended, then;
};

struct request { char id[NAME]; int prompt, output, priority, stop_after, is_cancel; };

struct node { struct request news[MOST]; struct decision *legal; int count, choices; };

struct scenario {
    char id[NAME], name[128];
    int blocks, block_size, seats, token_budget, watermark, by_priority, lowest_priority, skip, full_chunks;
    struct node nodes[NODES];
    int count;
};

static const char *file;
static int line_number;

static void die(const char *what, const char *line)
{
    fprintf(stderr, "%s:%d: %s: '%.60s'\n", file, line_number, what, line);
    exit(2);
}

static void ensure(int ok, const char *what, const char *line)
{
    if (!ok)
        die(what, line);
}

static void read_setting(struct scenario *s, const char *line)
{
    char name[NAME], value[NAME];
    ensure(sscanf(line, "setting %31s %31s", name, value) == 2, "a setting has a name and a value", line);
    int n = atoi(value);
    if (!strcmp(name, "blocks")) s->blocks = n;
    else if (!strcmp(name, "block_size")) s->block_size = n;
    else if (!strcmp(name, "seats")) s->seats = n;
    else if (!strcmp(name, "token_budget")) s->token_budget = n;
    else if (!strcmp(name, "watermark_blocks")) s->watermark = n;
    else if (!strcmp(name, "policy")) s->by_priority = !strcmp(value, "priority");
    else if (!strcmp(name, "victim")) s->lowest_priority = !strcmp(value, "lowest_priority");
    else if (!strcmp(name, "at_blocked_head")) s->skip = !strcmp(value, "skip");
    else die("there is no such setting here", line);
}

static void read_decision(struct node *node, struct decision *d, const char *line)
{
    struct run row;
    char id[NAME];
    ensure(d != NULL && node != NULL, "this belongs to a decision", line);
    if (sscanf(line, "preempt %31s", id) == 1 && d->preemptions < MOST) strcpy(d->preempted[d->preemptions++], id);
    else if (sscanf(line, "admit %31s", id) == 1 && d->admissions < MOST) strcpy(d->admitted[d->admissions++], id);
    else if (sscanf(line, "ends %31s", id) == 1 && d->ended < MOST) strcpy(d->ends[d->ended++], id);
    else if (sscanf(line, "run %31s %d %d %d %d", row.id, &row.start, &row.tokens, &row.samples, &row.held) == 5 &&
             d->rows < MOST)
        d->runs[d->rows++] = row;
    else
        die("there is no such line, or too many of them", line);
}

static void read_news(struct node *node, const char *line)
{
    struct request r = {0};
    ensure(node != NULL && node->count < MOST, "too much happens before one step, or it is no step", line);
    if (sscanf(line, "cancel %31s", r.id) == 1)
        r.is_cancel = 1;
    else
        ensure(sscanf(line, "submit %31s %d %d %d %d", r.id, &r.prompt, &r.output, &r.priority, &r.stop_after) == 5,
               "a submission has an id and four numbers", line);
    node->news[node->count++] = r;
}

static struct decision *read_choice(struct node *node, const char *line)
{
    int then;
    ensure(node != NULL && node->choices < CHOICES, "too many decisions of one step, or it is no step", line);
    ensure(sscanf(line, "legal %d", &then) == 1, "a decision has the node that it leads to", line);
    if (!node->legal && !(node->legal = calloc(CHOICES, sizeof *node->legal)))
        die("memory is out", line);
    struct decision *d = &node->legal[node->choices++];
    d->then = then;
    return d;
}

static struct scenario *read_scenario(const char *path)
{
    char line[512];
    int whole = 0;
    FILE *in = fopen(file = path, "r");
    struct scenario *s = calloc(1, sizeof *s);
    struct node *node = NULL;
    struct decision *choice = NULL;
    line_number = 0;
    if (!in || !s) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (++line_number == 1) ensure(!strcmp(line, "schedspec-vectors/1"), "another version wrote this", line);
        else if (!strncmp(line, "scenario ", 9)) sscanf(line, "scenario %31s %127[^\n]", s->id, s->name);
        else if (!strncmp(line, "setting ", 8)) read_setting(s, line);
        else if (!strncmp(line, "claim ", 6)) s->full_chunks |= !strcmp(line, "claim full_chunks");
        else if (!strncmp(line, "node ", 5)) {
            ensure(s->count < NODES, "too many nodes", line);
            node = &s->nodes[s->count++];
            choice = NULL;
        }
        else if (!strncmp(line, "submit ", 7) || !strncmp(line, "cancel ", 7)) read_news(node, line);
        else if (!strncmp(line, "legal ", 6)) choice = read_choice(node, line);
        else if (!strcmp(line, "end")) whole = 1;
        else read_decision(node, choice, line);
    }
    fclose(in);
    ensure(whole, "the file is cut off: its last line is not end", line);
    ensure(s->blocks > 0 && s->block_size > 0 && s->seats > 0 && s->token_budget > 0, "a size is missing", s->id);
    return s;
}

/* --- the scheduler --- */

struct job { struct request r; int came, issued, outputs, held, is_running, admitted; };

struct state { struct job *waiting[MOST], *running[MOST]; int waits, runs, free, came, admissions; };

static int known(const struct job *job)
{
    return job->r.prompt + job->outputs;
}

static int needed(const struct scenario *s, const struct job *job, int tokens)
{
    int end = job->issued + tokens;
    int blocks = BUG(BLOCKS_ROUNDED_DOWN) ? end / s->block_size : (end + s->block_size - 1) / s->block_size;
    return tokens && blocks > job->held ? blocks - job->held : 0;
}

static int goes_before(const struct scenario *s, const struct job *a, const struct job *b)
{
    if (s->by_priority && !BUG(PRIORITY_IGNORED) && a->r.priority != b->r.priority)
        return a->r.priority < b->r.priority;
    return BUG(LAST_COMES_FIRST) ? a->came > b->came : a->came < b->came;
}

static void wait_for_turn(const struct scenario *s, struct state *t, struct job *job)
{
    int place = t->waits++;
    for (; place > 0 && goes_before(s, job, t->waiting[place - 1]); place--)
        t->waiting[place] = t->waiting[place - 1];
    t->waiting[place] = job;
}

static void leave(struct job **line, int *count, struct job *job)
{
    int place = 0;
    while (line[place] != job)
        place++;
    memmove(line + place, line + place + 1, (--*count - place) * sizeof *line);
}

/* Tokens of everybody who runs: decodes first, then prompts in the order of their admission. */
static int compose(const struct scenario *s, const struct state *t, int *tokens)
{
    int left = s->token_budget + BUG(BUDGET_OFF_BY_ONE);
    for (int prompts = 0; prompts < 2; prompts++)
        for (int i = 0; i < t->runs; i++) {
            const struct job *job = t->running[i];
            int wish = known(job) - job->issued, is_prompt = job->issued < job->r.prompt;
            if (is_prompt != (BUG(PROMPTS_FIRST) ? !prompts : prompts))
                continue;
            if (!s->full_chunks && wish > CHUNK)
                wish = CHUNK;
            tokens[i] = wish < left ? wish : left;
            left -= tokens[i];
        }
    return left;
}

static struct job *victim(const struct scenario *s, const struct state *t)
{
    struct job *worst = t->running[BUG(OLDEST_IS_VICTIM) ? 0 : t->runs - 1];
    for (int i = t->runs - 2; s->lowest_priority && i >= 0; i--)
        if (t->running[i]->r.priority > worst->r.priority)
            worst = t->running[i];
    return worst;
}

static void preempt(const struct scenario *s, struct state *t, struct job *job, struct decision *d)
{
    strcpy(d->preempted[d->preemptions++], job->r.id);
    leave(t->running, &t->runs, job);
    t->free += job->held;
    job->held = 0;
    if (!BUG(VICTIM_KEEPS_POSITION)) job->issued = 0;
    if (BUG(VICTIM_LOSES_OUTPUTS)) job->outputs = 0;
    if (BUG(VICTIM_GOES_LAST)) job->came = t->came++;
    wait_for_turn(s, t, job);
}

static void run(const struct scenario *s, struct state *t, struct job *job, int tokens, struct decision *d)
{
    int blocks = needed(s, job, tokens);
    struct run row = {"", job->issued, tokens, job->issued + tokens == known(job), job->held + blocks};
    if (!tokens)
        return;
    strcpy(row.id, job->r.id);
    t->free -= blocks;
    job->held += blocks;
    job->issued += tokens;
    d->runs[d->rows++] = row;
}

static void admit(const struct scenario *s, struct state *t, int left, struct decision *d)
{
    struct job *waiting[MOST];
    int waits = t->waits, skips = BUG(HEAD_IS_PASSED) || (s->skip && !BUG(HEAD_BLOCKS));
    memcpy(waiting, t->waiting, sizeof waiting);
    for (int i = 0; i < waits && left > 0 && (t->runs < s->seats || BUG(SEATS_FORGOTTEN)); i++) {
        struct job *job = waiting[i];
        int wish = known(job) - job->issued;
        if (!s->full_chunks && wish > CHUNK)
            wish = CHUNK;
        int tokens = wish < left ? wish : left;
        int kept = t->runs || BUG(WATERMARK_WHEN_IDLE) ? s->watermark : 0;
        if (needed(s, job, tokens) + (BUG(WATERMARK_FORGOTTEN) ? 0 : kept) > t->free) {
            if (skips)
                continue;
            break;
        }
        leave(t->waiting, &t->waits, job);
        t->running[t->runs++] = job;
        strcpy(d->admitted[d->admissions++], job->r.id);
        run(s, t, job, tokens, d);
        left -= tokens;
    }
}

static void step(const struct scenario *s, struct state *t, struct decision *d)
{
    int tokens[MOST], left, need;
    for (;;) {
        left = compose(s, t, tokens);
        need = 0;
        for (int i = 0; i < t->runs; i++)
            need += needed(s, t->running[i], tokens[i]);
        if (need <= t->free || !t->runs)
            break;
        preempt(s, t, victim(s, t), d);
    }
    for (int i = 0; i < t->runs; i++)
        run(s, t, t->running[i], tokens[i], d);
    if (!d->preemptions)
        admit(s, t, left, d);
}

static int is_at_its_end(const struct job *job)
{
    return job->outputs == job->r.output || (job->outputs == job->r.stop_after && !BUG(STOP_IGNORED));
}

/* The result: each that sampled has one token more, and may be at its end. */
static void complete(struct state *t, struct decision *d)
{
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; d->runs[i].samples && j < t->runs; j++) {
            struct job *job = t->running[j];
            if (strcmp(job->r.id, d->runs[i].id))
                continue;
            job->outputs++;
            if (is_at_its_end(job)) {
                strcpy(d->ends[d->ended++], job->r.id);
                leave(t->running, &t->runs, job);
                t->free += BUG(END_LEAKS) ? 0 : job->held;
                break;
            }
        }
}

static void hear(const struct scenario *s, struct state *t, const struct request *r, struct job *fresh)
{
    if (!r->is_cancel) {
        fresh->r = *r;
        fresh->came = t->came++;
        wait_for_turn(s, t, fresh);
        return;
    }
    for (int i = 0; i < t->waits; i++)
        if (!strcmp(t->waiting[i]->r.id, r->id)) {
            leave(t->waiting, &t->waits, t->waiting[i]);
            return;
        }
    for (int i = 0; i < t->runs; i++)
        if (!strcmp(t->running[i]->r.id, r->id)) {
            t->free += BUG(CANCEL_LEAKS) ? 0 : t->running[i]->held;
            leave(t->running, &t->runs, t->running[i]);
            return;
        }
}

/* --- comparing --- */

static int is_among(const char *id, char (*ids)[NAME], int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(ids[i], id))
            return 1;
    return 0;
}

static int same_ids(char (*a)[NAME], int m, char (*b)[NAME], int n)
{
    for (int i = 0; i < m; i++)
        if (!is_among(a[i], b, n))
            return 0;
    return m == n;
}

static int same_run(const struct run *a, const struct run *b)
{
    return !strcmp(a->id, b->id) && a->start == b->start && a->tokens == b->tokens && a->samples == b->samples &&
           a->held == b->held;
}

/* Who is admitted has an order, who runs has none, and neither has who is preempted or ends. */
static int is_same(struct decision *a, struct decision *b)
{
    int same = a->rows == b->rows && a->admissions == b->admissions;
    for (int i = 0; same && i < a->admissions; i++)
        same = !strcmp(a->admitted[i], b->admitted[i]);
    for (int i = 0; same && i < a->rows; i++) {
        int found = 0;
        for (int j = 0; j < b->rows; j++)
            found |= same_run(&a->runs[i], &b->runs[j]);
        same = found;
    }
    return same && same_ids(a->preempted, a->preemptions, b->preempted, b->preemptions) &&
           same_ids(a->ends, a->ended, b->ends, b->ended);
}

static void say(const char *head, const struct decision *d)
{
    printf("%s", head);
    for (int i = 0; i < d->preemptions; i++) printf(" preempts %s;", d->preempted[i]);
    for (int i = 0; i < d->admissions; i++) printf(" admits %s;", d->admitted[i]);
    for (int i = 0; i < d->rows; i++)
        printf(" runs %s[%d,%d)%s with %d blocks;", d->runs[i].id, d->runs[i].start,
               d->runs[i].start + d->runs[i].tokens, d->runs[i].samples ? "*" : "", d->runs[i].held);
    for (int i = 0; i < d->ended; i++) printf(" then %s ends;", d->ends[i]);
    printf("%s\n", d->preemptions + d->admissions + d->rows ? "" : " nothing;");
}

static int passes(struct scenario *s)
{
    static struct job jobs[NODES];
    struct state t = {.free = s->blocks};
    int submitted = 0, number = 0;
    memset(jobs, 0, sizeof jobs);
    for (int steps = 1; number >= 0; steps++) {
        struct node *node = &s->nodes[number];
        struct decision own = {0}, *match = NULL;
        for (int i = 0; i < node->count; i++)
            hear(s, &t, &node->news[i], &jobs[submitted++]);
        step(s, &t, &own);
        complete(&t, &own);
        for (int i = 0; i < node->choices && !match; i++)
            if (is_same(&own, &node->legal[i]))
                match = &node->legal[i];
        if (!match) {
            printf("FAIL %s, %s: step %d is not legal\n", s->id, s->name, steps);
            say("     it", &own);
            for (int i = 0; i < node->choices; i++)
                say("     legal:", &node->legal[i]);
            return 0;
        }
        number = match->then;
        if (number >= s->count) {
            fprintf(stderr, "%s: node %d is missing\n", s->id, number);
            exit(2);
        }
    }
    printf("ok   %s, %s\n", s->id, s->name);
    return 1;
}

int main(int count, char **paths)
{
    int passed = 0;
    if (count < 2) {
        fprintf(stderr, "usage: %s scenarios/S-*.txt\n", paths[0]);
        return 2;
    }
    for (int i = 1; i < count; i++)
        passed += passes(read_scenario(paths[i]));
    printf("%d passed, %d failed\n", passed, count - 1 - passed);
    return passed < count - 1;
}
