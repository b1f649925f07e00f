/* A scheduler in C to copy, the policy of toy_scheduler.py, without libraries:
 *
 *     cc -O2 -o toy_adapter toy_adapter.c && schedspec check exec:./toy_adapter
 *
 * Each line of stdin is a question, each gets one line on stdout.  Instead of a JSON parser it has a scanner that
 * relies on how questions are written: no blanks, ASCII, quotes inside of strings escaped.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Job {
    struct Job *next;
    char *id; /* as it stands in JSON, quotes included */
    long known, issued, left, need, *blocks;
    int running;
} Job;

typedef struct {
    Job *job;
    long start, tokens;
} Entry;

static const char *const HONOURED[][2] = {
    {"policy", "\"fcfs\""},      {"at_blocked_head", "\"break\""}, {"reserve", "\"declared\""},
    {"watermark_blocks", "0"},   {"overlap_depth", "1"},           {"prefix_caching", "false"},
    {"chunked_prefill", "true"}, {"resident_tokens", "0"},
};

static long pool, block_size, seats, token_budget, max_prompt, max_output, max_model;
static long *free_blocks, free_count, running, steps, in_flight;
static Job *jobs; /* in order of arrival: those who run stand before those who wait */
static char **seen; /* ids that came: each is one request's for good */
static size_t seen_count;
static Entry *entries;

/* --- scanning */

static const char *value_of(const char *text, const char *key) {
    size_t length = strlen(key);
    for (const char *at = text; (at = strchr(at, '"')); at++)
        if (!strncmp(at + 1, key, length) && !strncmp(at + 1 + length, "\":", 2)) return at + length + 3;
    fprintf(stderr, "no \"%s\" in %.200s\n", key, text);
    exit(1);
}

static long number_of(const char *text, const char *key) { return strtol(value_of(text, key), NULL, 10); }

static char *string_at(const char *text) {
    const char *end = text + 1;
    while (*end != '"') end += *end == '\\' ? 2 : 1;
    return strndup(text, (size_t)(end + 1 - text));
}

static long length_of(const char *array) {
    long count = array[1] != ']';
    for (; *array != ']'; array++) count += *array == ',';
    return count;
}

/* --- state */

static Job **find(const char *id) {
    Job **place = &jobs;
    while (*place && strcmp((*place)->id, id)) place = &(*place)->next;
    return place;
}

static int is_new(const char *id) {
    for (size_t i = 0; i < seen_count; i++)
        if (!strcmp(seen[i], id)) return 0;
    seen = realloc(seen, (seen_count + 1) * sizeof *seen);
    seen[seen_count++] = strdup(id);
    return 1;
}

static void forget(Job **place) {
    Job *job = *place;
    *place = job->next;
    for (long i = 0; job->running && i < job->need; i++) free_blocks[free_count++] = job->blocks[i];
    running -= job->running;
    free(job->blocks);
    free(job->id);
    free(job);
}

static void forget_all(void) {
    while (jobs) forget(&jobs);
    while (seen_count) free(seen[--seen_count]);
}

static void reset(void) {
    forget_all();
    free_blocks = realloc(free_blocks, (size_t)pool * sizeof *free_blocks);
    entries = realloc(entries, (size_t)seats * sizeof *entries);
    for (free_count = 0; free_count < pool; free_count++) free_blocks[free_count] = free_count;
    steps = in_flight = running = 0;
}

static void print_blocks(const char *delta, const Job *job) {
    printf("[\"%s\",%s,[", delta, job->id);
    for (long i = 0; i < job->need; i++) printf(i ? ",%ld" : "%ld", job->blocks[i]);
    printf("]]");
}

/* --- methods: each prints its result */

static void configure(const char *params) {
    for (size_t i = 0; i < sizeof HONOURED / sizeof *HONOURED; i++) {
        const char *wanted = HONOURED[i][1];
        if (!strncmp(value_of(params, HONOURED[i][0]), wanted, strlen(wanted))) continue;
        printf("\"error\":{\"unsupported\":\"%s\"}", HONOURED[i][0]);
        return;
    }
    forget_all();
    pool = number_of(params, "blocks");
    block_size = number_of(params, "block_size");
    seats = number_of(params, "seats");
    token_budget = number_of(params, "token_budget");
    max_prompt = number_of(params, "max_prompt_tokens");
    max_output = number_of(params, "max_output_tokens");
    max_model = number_of(params, "max_model_tokens");
    reset();
    printf("\"result\":{\"name\":\"toy in C\",\"observes\":\"tables\",\"ordered\":true,"
           "\"claims\":[\"hard_budget\",\"fcfs\",\"break\",\"declared_reserve\"]}");
}

static void submit(const char *params) {
    char *id = string_at(value_of(params, "id"));
    if (!is_new(id)) {
        printf("\"result\":{\"verdict\":\"duplicate\",\"of\":%s}", id);
        free(id);
        return;
    }
    long prompt = length_of(value_of(params, "prompt_ids")), output = number_of(params, "max_output_tokens");
    long need = (prompt + output - 1 + block_size - 1) / block_size; /* the last token is never written */
    const char *reasons[] = {"prompt_tokens", "output_tokens", "model_tokens", "kv_blocks"};
    long values[] = {prompt, output, prompt + output, need}, limits[] = {max_prompt, max_output, max_model, pool};
    for (int i = 0; i < 4; i++) {
        if (values[i] <= limits[i]) continue;
        printf("\"result\":{\"verdict\":\"refused\",\"reason\":\"%s\",\"limit\":%ld,\"value\":%ld}", reasons[i],
               limits[i], values[i]);
        free(id);
        return;
    }
    Job *job = calloc(1, sizeof *job);
    job->id = id;
    job->known = prompt, job->left = output, job->need = need;
    *find("") = job;
    printf("\"result\":{\"verdict\":\"accepted\"}");
}

static void cancel(const char *params) {
    char *id = string_at(value_of(params, "request_id"));
    Job **place = find(id);
    printf("\"result\":[");
    if (*place) {
        if ((*place)->running) print_blocks("gave", *place), putchar(',');
        printf("[\"cancelled\",%s]", id);
        forget(place);
    }
    putchar(']');
    free(id);
}

static void admit(Job *job) {
    job->blocks = malloc((size_t)job->need * sizeof *job->blocks);
    for (long i = 0; i < job->need; i++) job->blocks[i] = free_blocks[--free_count];
    job->running = 1, running++;
}

static void step(void) {
    long budget = token_budget, count = 0;
    const char *comma = "";
    printf("\"result\":{\"step\":%ld,\"deltas\":[", in_flight = ++steps);
    for (Job *job = jobs; job; job = job->next) {
        if (!job->running) {
            if (!budget || running == seats || job->need > free_count) break;
            admit(job);
            printf("%s", comma), print_blocks("took", job), comma = ",";
            printf(",[\"admitted\",%s,0]", job->id);
        }
        long tokens = job->known - job->issued < budget ? job->known - job->issued : budget;
        if (tokens) entries[count++] = (Entry){job, job->issued, tokens};
        job->issued += tokens, budget -= tokens;
    }
    const char *columns[] = {"request", "start", "tokens", "samples"};
    for (int column = 0; column < 4; column++) {
        printf("],\"%s\":[", columns[column]);
        for (Entry *e = entries; e < entries + count; e++) {
            long numbers[] = {0, e->start, e->tokens, e->start + e->tokens == e->job->known};
            if (e > entries) putchar(',');
            if (column) printf("%ld", numbers[column]);
            else printf("%s", e->job->id);
        }
    }
    printf("]}");
}

static void deliver(Job **place, long token, int stop) {
    Job *job = *place;
    printf("[\"delivered\",[%s],[%ld]]", job->id, token);
    job->known++, job->left--;
    if (!stop && job->left) return;
    putchar(','), print_blocks("gave", job);
    printf(",[\"finished\",%s,\"%s\"]", job->id, stop ? "stop" : "length");
    forget(place);
}

static void complete(const char *params) {
    const char *request = value_of(params, "request") + 1, *comma = "";
    const char *token = value_of(params, "token") + 1, *stop = value_of(params, "stop") + 1;
    int fresh = number_of(params, "step") == in_flight; /* else it came before */
    printf("\"result\":[");
    while (fresh && *request == '"') {
        char *id = string_at(request);
        Job **place = find(id);
        if (*place && (*place)->running) /* else it was cancelled meanwhile */
            printf("%s", comma), deliver(place, strtol(token, NULL, 10), *stop == 't'), comma = ",";
        request += strlen(id) + 1; /* and the comma */
        token += strcspn(token, ",]") + 1, stop += strcspn(stop, ",]") + 1;
        free(id);
    }
    if (fresh) in_flight = 0;
    putchar(']');
}

static void answer(const char *line) {
    const char *params = value_of(line, "params");
    char *method = string_at(value_of(line, "method"));
    printf("{\"id\":%ld,", number_of(line, "id"));
    if (!strcmp(method, "\"configure\"")) configure(params);
    else if (!strcmp(method, "\"submit\"")) submit(params);
    else if (!strcmp(method, "\"cancel\"")) cancel(params);
    else if (!strcmp(method, "\"step\"")) step();
    else if (!strcmp(method, "\"complete\"")) complete(params);
    else if (!strcmp(method, "\"notify\"")) printf("\"result\":[]");
    else if (!strcmp(method, "\"reset\"")) reset(), printf("\"result\":null");
    else if (!strcmp(method, "\"observe\"")) printf("\"result\":null");
    else printf("\"error\":{\"message\":\"no such method\"}");
    puts("}");
    fflush(stdout); /* else the answer stays here, and the other side waits for it */
    free(method);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) answer(line);
    forget_all();
    free(seen), free(line), free(entries), free(free_blocks);
    return 0;
}
