/* Gradient flow of the embedded model (models/embedded.py): its velocity, the velocity's derivative along a direction, and a solver.

   The solver is the backward differentiation formula of order 1 to MOST_ORDER with variable coefficients. Modified divided differences
   of the last states, `difference[k]`, are y[t_n, ..., t_n-k] times `span[1] ... span[k]`, where span[j] = t_n - t_n-j: all that it needs
   to know of the past. Downhill on a loss, the Jacobian is symmetric (in the inner product in which every matrix has its rate), and
   where a step is accurate, I - h J is positive definite. So conjugate gradients solve Newton's equation with derivatives along
   directions, each as cheap as two velocities: no Jacobian is made and nothing is factorised, whatever the number of unknowns.

   Matrices are padded with zeros to multiples of LANES, which the flow leaves at zero. A flow belongs to one thread. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 4
#define MOST_ORDER 6 /* the highest that is stable for real eigenvalues */
#define N_DIFFERENCES (MOST_ORDER + 3)
#define SOLVED 0.1    /* what Newton's method may leave, where a step may be wrong by 1 */
#define LINEAR 0.3    /* what conjugate gradients may leave of it */
#define WORTH_IT 1.1  /* how much longer steps must become by another order */
#define NOT_YET 1.2   /* a step that could only be this much longer stays: formulas are best at equal steps */
#define AT_MOST 2.0   /* times the last step */

const char *saccade_source(void) { return SOURCE; }

/* Everything after this is for processors that have these instructions: all of this kind since 2013. */
#if defined(__x86_64__)
int saccade_flow_runs_here(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#pragma GCC target("avx2,fma")
#else
int saccade_flow_runs_here(void) { return 1; }
#endif

typedef double vector __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

/* The same fields in the same order as `_Problem` in flow_kernel.py. */
struct problem {
    int64_t n_tokens, tokens, width, key_width; /* n_tokens: without the padding */
    double lr_decoder, lr_attention, rtol, atol;
    const double *stationary, *transition, *start; /* padded */
};

struct weights {
    double *embedding, *query, *key, *projection;
};

/* Everything between weights and slopes; `d_` is the slope of the loss. Of a derivative along a direction, the same again. */
struct pass {
    double *queries, *keys, *attention, *mean, *error;
    double *d_mean, *d_attention, *d_logits, *d_queries, *d_keys;
    double *embedding_t, *query_t, *key_t, *projection_t, *keys_t; /* transposed */
    double *prob;
};

struct flow {
    struct problem problem;
    struct pass at, along;
    struct progress { /* as `_Progress` in flow_kernel.py */
        int64_t n_reached, n_steps, n_velocities, n_derivatives, failed;
        double time;
    } *so_far;
    int64_t n;
    double *point, *velocity, *weight, *inverse_rate, *predicted, *slope, *change, *residual, *correction, *direction, *image;
    double *difference[N_DIFFERENCES], *carried[N_DIFFERENCES];
    double span[N_DIFFERENCES], h;
    int order, depth, steady; /* depth: the last difference that is known; steady: steps since the order changed */
};

/* c = a b, or c += a b; element (i, l) of a is a[i * down + l * right], b and c stand row by row. */
static inline __attribute__((always_inline)) void tile(double *c, const double *a, int64_t down, int64_t right, const double *b, int64_t inner, int64_t n, int wide, int add) {
    vector sum[LANES][2] = {{{0}}};
    for (int64_t l = 0; l < inner; l++)
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < wide; j++) sum[i][j] += a[i * down + l * right] * *(const vector *)(b + l * n + LANES * j);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < wide; j++) {
            vector *to = (vector *)(c + i * n + LANES * j);
            if (add) sum[i][j] += *to;
            *to = sum[i][j];
        }
}

static __attribute__((noinline)) void product(
    double *c, const double *a, int64_t down, int64_t right, const double *b, int64_t m, int64_t inner, int64_t n, int add
) {
    for (int64_t i = 0; i < m; i += LANES) {
        int64_t j = 0;
        for (; j + 2 * LANES <= n; j += 2 * LANES) tile(c + i * n + j, a + i * down, down, right, b + j, inner, n, 2, add);
        if (j < n) tile(c + i * n + j, a + i * down, down, right, b + j, inner, n, 1, add);
    }
}

/* Of matrices that stand row by row: a is m x inner, or its transpose is. */
#define SET(c, a, b, m, inner, n) product(c, a, inner, 1, b, m, inner, n, 0)
#define ADD(c, a, b, m, inner, n) product(c, a, inner, 1, b, m, inner, n, 1)
#define SET_T(c, a, b, m, inner, n) product(c, a, 1, m, b, m, inner, n, 0)
#define ADD_T(c, a, b, m, inner, n) product(c, a, 1, m, b, m, inner, n, 1)

static void transpose(double *to, const double *from, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

static double dot(const double *a, const double *b, int64_t n) {
    vector sum = {0};
    for (int64_t i = 0; i < n; i += LANES) sum += *(const vector *)(a + i) * *(const vector *)(b + i);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static struct weights weights_in(const struct problem *is, double *y) {
    double *query = y + is->tokens * is->width, *key = query + is->width * is->key_width;
    return (struct weights){y, query, key, key + is->width * is->key_width};
}

/* Softmax of a row times `base`; the logarithm of what it was divided by. */
static double softmax(double *row, const double *base, int64_t n) {
    double highest = row[0], total = 0;
    for (int64_t j = 1; j < n; j++) highest = row[j] > highest ? row[j] : highest;
    for (int64_t j = 0; j < n; j++) total += row[j] = (base ? base[j] : 1) * exp(row[j] - highest);
    for (int64_t j = 0; j < n; j++) row[j] /= total;
    return highest + log(total);
}

static void downhill(const struct flow *flow, double *y) {
    const struct problem *is = &flow->problem;
    int64_t first = is->tokens * is->width, last = first + 2 * is->width * is->key_width;
    for (int64_t i = 0; i < flow->n; i++) y[i] *= first <= i && i < last ? -is->lr_attention : -is->lr_decoder;
}

/* Loss and velocity at `flow->point`; what it goes through stays in `flow->at` for derivatives there. */
static double evaluate(struct flow *flow, double *velocity) {
    const struct problem *is = &flow->problem;
    const struct pass *at = &flow->at;
    struct weights w = weights_in(is, flow->point), d = weights_in(is, velocity);
    int64_t V = is->tokens, D = is->width, K = is->key_width, n = is->n_tokens;
    double loss = 0;
    transpose(at->embedding_t, w.embedding, V, D), transpose(at->projection_t, w.projection, D, V);
    transpose(at->query_t, w.query, D, K), transpose(at->key_t, w.key, D, K);
    SET(at->queries, w.embedding, w.query, V, D, K);
    SET(at->keys, w.embedding, w.key, V, D, K);
    transpose(at->keys_t, at->keys, V, K);
    SET(at->attention, at->queries, at->keys_t, V, K, V);
    for (int64_t i = 0; i < n; i++) softmax(at->attention + i * V, is->stationary, n);
    memset(at->attention + n * V, 0, 8 * (V - n) * V);
    for (int64_t i = 0; i < n; i++) memset(at->attention + i * V + n, 0, 8 * (V - n));
    SET(at->mean, at->attention, w.embedding, V, V, D);
    SET(at->prob, at->mean, w.projection, V, D, V);
    for (int64_t i = 0; i < n; i++) {
        double *prob = at->prob + i * V, *error = at->error + i * V, share = is->stationary[i];
        const double *next = is->transition + i * V;
        double expected = dot(next, prob, V);
        loss += share * (softmax(prob, 0, n) - expected);
        memset(prob + n, 0, 8 * (V - n));
        for (int64_t j = 0; j < V; j++) error[j] = share * (prob[j] - next[j]);
    }
    SET_T(d.projection, at->mean, at->error, D, V, V);
    SET(at->d_mean, at->error, at->projection_t, V, V, D);
    SET_T(d.embedding, at->attention, at->d_mean, V, V, D);
    SET(at->d_attention, at->d_mean, at->embedding_t, V, D, V);
    for (int64_t i = 0; i < V; i++) {
        double average = dot(at->d_mean + i * D, at->mean + i * D, D);
        for (int64_t j = i * V; j < (i + 1) * V; j++) {
            at->d_attention[j] -= average;
            at->d_logits[j] = at->attention[j] * at->d_attention[j];
        }
    }
    SET(at->d_queries, at->d_logits, at->keys, V, V, K);
    SET_T(at->d_keys, at->d_logits, at->queries, V, V, K);
    SET_T(d.query, w.embedding, at->d_queries, D, V, K);
    SET_T(d.key, w.embedding, at->d_keys, D, V, K);
    ADD(d.embedding, at->d_queries, at->query_t, V, K, D);
    ADD(d.embedding, at->d_keys, at->key_t, V, K, D);
    downhill(flow, velocity);
    flow->so_far->n_velocities++;
    return loss;
}

/* Derivative of the velocity along `direction`, where `evaluate` was last: each of its lines by the product rule. */
static void derive(struct flow *flow, double *direction, double *image) {
    const struct problem *is = &flow->problem;
    const struct pass *at = &flow->at, *by = &flow->along;
    struct weights w = weights_in(is, flow->point), v = weights_in(is, direction), d = weights_in(is, image);
    int64_t V = is->tokens, D = is->width, K = is->key_width;
    transpose(by->embedding_t, v.embedding, V, D), transpose(by->projection_t, v.projection, D, V);
    transpose(by->query_t, v.query, D, K), transpose(by->key_t, v.key, D, K);
    SET(by->queries, v.embedding, w.query, V, D, K), ADD(by->queries, w.embedding, v.query, V, D, K);
    SET(by->keys, v.embedding, w.key, V, D, K), ADD(by->keys, w.embedding, v.key, V, D, K);
    transpose(by->keys_t, by->keys, V, K);
    SET(by->attention, by->queries, at->keys_t, V, K, V), ADD(by->attention, at->queries, by->keys_t, V, K, V);
    for (int64_t i = 0; i < V; i++) {
        double average = dot(at->attention + i * V, by->attention + i * V, V);
        for (int64_t j = i * V; j < (i + 1) * V; j++) by->attention[j] = at->attention[j] * (by->attention[j] - average);
    }
    SET(by->mean, by->attention, w.embedding, V, V, D), ADD(by->mean, at->attention, v.embedding, V, V, D);
    SET(by->error, by->mean, w.projection, V, D, V), ADD(by->error, at->mean, v.projection, V, D, V);
    for (int64_t i = 0; i < V; i++) {
        double average = dot(at->prob + i * V, by->error + i * V, V);
        for (int64_t j = i * V; j < (i + 1) * V; j++) by->error[j] = is->stationary[i] * at->prob[j] * (by->error[j] - average);
    }
    SET_T(d.projection, by->mean, at->error, D, V, V), ADD_T(d.projection, at->mean, by->error, D, V, V);
    SET(by->d_mean, by->error, at->projection_t, V, V, D), ADD(by->d_mean, at->error, by->projection_t, V, V, D);
    SET_T(d.embedding, by->attention, at->d_mean, V, V, D), ADD_T(d.embedding, at->attention, by->d_mean, V, V, D);
    SET(by->d_attention, by->d_mean, at->embedding_t, V, D, V), ADD(by->d_attention, at->d_mean, by->embedding_t, V, D, V);
    for (int64_t i = 0; i < V; i++) {
        double average = dot(by->d_mean + i * D, at->mean + i * D, D) + dot(at->d_mean + i * D, by->mean + i * D, D);
        for (int64_t j = i * V; j < (i + 1) * V; j++)
            by->d_logits[j] = by->attention[j] * at->d_attention[j] + at->attention[j] * (by->d_attention[j] - average);
    }
    SET(by->d_queries, by->d_logits, at->keys, V, V, K), ADD(by->d_queries, at->d_logits, by->keys, V, V, K);
    SET_T(by->d_keys, by->d_logits, at->queries, V, V, K), ADD_T(by->d_keys, at->d_logits, by->queries, V, V, K);
    SET_T(d.query, v.embedding, at->d_queries, D, V, K), ADD_T(d.query, w.embedding, by->d_queries, D, V, K);
    SET_T(d.key, v.embedding, at->d_keys, D, V, K), ADD_T(d.key, w.embedding, by->d_keys, D, V, K);
    ADD(d.embedding, by->d_queries, at->query_t, V, K, D), ADD(d.embedding, at->d_queries, by->query_t, V, K, D);
    ADD(d.embedding, by->d_keys, at->key_t, V, K, D), ADD(d.embedding, at->d_keys, by->key_t, V, K, D);
    downhill(flow, image);
    flow->so_far->n_derivatives++;
}

/* The largest entry, in units of what is tolerated; NaN if one is. */
static double size(const struct flow *flow, const double *x) {
    double most = 0;
    for (int64_t i = 0; i < flow->n; i++) {
        double entry = fabs(x[i]) * flow->weight[i];
        most = entry > most || entry != entry ? entry : most;
    }
    return most;
}

/* The inner product in which the Jacobian is symmetric. */
static double inner(const struct flow *flow, const double *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < flow->n; i++) sum += a[i] * b[i] * flow->inverse_rate[i];
    return sum;
}

/* The `correction` that solves (I - gamma J) x = residual, until what is left is at most `enough`. */
static int conjugate_gradients(struct flow *flow, double gamma, double enough) {
    double *r = flow->residual, *p = flow->direction, *Mp = flow->image;
    int64_t n = flow->n;
    memcpy(p, r, 8 * n), memset(flow->correction, 0, 8 * n);
    double rr = inner(flow, r, r);
    for (int64_t turn = 0; turn < 2 * n && size(flow, r) > enough; turn++) {
        derive(flow, p, Mp);
        for (int64_t i = 0; i < n; i++) Mp[i] = p[i] - gamma * Mp[i];
        double curvature = inner(flow, p, Mp);
        if (!(curvature > 0)) return 0;
        double far = rr / curvature, before = rr;
        for (int64_t i = 0; i < n; i++) flow->correction[i] += far * p[i], r[i] -= far * Mp[i];
        rr = inner(flow, r, r);
        for (int64_t i = 0; i < n; i++) p[i] = r[i] + rr / before * p[i];
    }
    return 1;
}

/* Newton's method for velocity(predicted + change) = slope + change / gamma. It has come to an end where the equation holds, or where
   there is nothing left to correct: in stiff directions, rounding of the velocity keeps the first from happening. */
static int solve(struct flow *flow, double gamma) {
    memset(flow->change, 0, 8 * flow->n);
    for (int turn = 0; turn < 6; turn++) {
        for (int64_t i = 0; i < flow->n; i++) flow->point[i] = flow->predicted[i] + flow->change[i];
        evaluate(flow, flow->velocity);
        for (int64_t i = 0; i < flow->n; i++)
            flow->residual[i] = gamma * (flow->velocity[i] - flow->slope[i]) - flow->change[i];
        double off = size(flow, flow->residual);
        if (!isfinite(off)) return 0;
        if (off <= SOLVED) return 1;
        if (!conjugate_gradients(flow, gamma, LINEAR * SOLVED)) return 0;
        for (int64_t i = 0; i < flow->n; i++) flow->change[i] += flow->correction[i];
        if (size(flow, flow->correction) <= SOLVED) return 1;
    }
    return 0;
}

static double growth(double error, int order) { return 1 / (1.2 * pow(error, 1.0 / (order + 1)) + 1e-6); }

/* Row sums of the projection never move. What stays below the solver's tolerance would let them drift, so a state is given back those
   of the start, and a difference of states none. */
static void hold_row_sums(const struct flow *flow, double *y, int is_state) {
    const struct problem *is = &flow->problem;
    double *rows = weights_in(is, y).projection, *first = weights_in(is, (double *)is->start).projection;
    for (int64_t i = 0; i < is->width * is->tokens; i += is->tokens) {
        double off = 0;
        for (int64_t j = i; j < i + is->n_tokens; j++) off += is_state ? rows[j] - first[j] : rows[j];
        for (int64_t j = i; j < i + is->n_tokens; j++) rows[j] -= off / is->n_tokens;
    }
}

/* One step forward; 0 if even the smallest fails. */
static int step(struct flow *flow) {
    double span[N_DIFFERENCES] = {0}, rate[N_DIFFERENCES] = {0}, gamma, error;
    int64_t n = flow->n;
    for (int64_t i = 0; i < n; i++) flow->weight[i] = 1 / (flow->problem.rtol * fabs(flow->difference[0][i]) + flow->problem.atol);
    for (int failed = 0;; failed++) {
        if (failed > 40 || flow->so_far->time + flow->h == flow->so_far->time) return 0;
        int q = flow->order;
        double carry = 1;
        memset(flow->predicted, 0, 8 * n), memset(flow->slope, 0, 8 * n);
        for (int k = 0; k <= flow->depth + 1 && k < N_DIFFERENCES; k++) { /* the past as it is seen from the new time */
            if (k) span[k] = k == 1 ? flow->h : flow->span[k - 1] + flow->h, rate[k] = rate[k - 1] + 1 / span[k];
            if (k > flow->depth) break;
            if (k) carry *= span[k] / flow->span[k];
            for (int64_t i = 0; i < n; i++) {
                double part = flow->carried[k][i] = carry * flow->difference[k][i];
                if (k <= q) flow->predicted[i] += part, flow->slope[i] += part * rate[k];
            }
        }
        gamma = 1 / rate[q];
        if (!solve(flow, gamma)) {
            flow->h *= 0.25, flow->steady = 0;
            continue;
        }
        error = size(flow, flow->change) * gamma / span[q + 1];
        if (error <= 1) break;
        flow->h *= fmax(0.2, fmin(0.9, growth(error, q))), flow->steady = 0;
        if (failed > 2 && q > 1) flow->order--;
    }
    for (int k = 0; k <= flow->depth + 1 && k < N_DIFFERENCES; k++) {
        for (int64_t i = 0; i < n; i++)
            flow->difference[k][i] = k ? flow->difference[k - 1][i] - flow->carried[k - 1][i] : flow->predicted[i] + flow->change[i];
        hold_row_sums(flow, flow->difference[k], k == 0);
    }
    flow->depth = flow->depth + 1 < N_DIFFERENCES ? flow->depth + 1 : N_DIFFERENCES - 1;
    memcpy(flow->span, span, sizeof span);
    flow->so_far->time += flow->h, flow->steady++, flow->so_far->n_steps++;
    /* The order that allows the longest next step; a change must be worth it, and waits until the last has shown. */
    int q = flow->order, best = q;
    double longest = growth(error, q);
    if (flow->steady > q + 1) {
        for (int k = q > 1 ? q - 1 : 1; k <= q + 1 && k <= MOST_ORDER && k < flow->depth; k++) {
            double other = growth(size(flow, flow->difference[k + 1]) / (rate[k] * span[k + 1]), k);
            if (k != q && other > WORTH_IT * longest) longest = other, best = k;
        }
        if (best != q) flow->order = best, flow->steady = 0;
    }
    flow->h *= longest > 1 && longest < NOT_YET ? 1 : fmax(0.5, fmin(AT_MOST, longest));
    return 1;
}

/* The state at an earlier time of the last step, into `flow->point`. */
static void interpolate(struct flow *flow, double time) {
    double factor = 1, back = time - flow->so_far->time;
    memcpy(flow->point, flow->difference[0], 8 * flow->n);
    for (int k = 1; k <= flow->order && k <= flow->depth; k++) {
        factor *= (back + (k > 1 ? flow->span[k - 1] : 0)) / flow->span[k];
        for (int64_t i = 0; i < flow->n; i++) flow->point[i] += factor * flow->difference[k][i];
    }
}

/* Goes on through `times`, which rise, for at most `n_steps` steps: writes states (time, padded unknown) and losses. */
void saccade_flow_advance(struct flow *flow, int64_t n_times, const double *times, int64_t n_steps, double *states, double *losses) {
    struct progress *so_far = flow->so_far;
    for (int64_t i = so_far->n_reached; i < n_times; i++) {
        for (; so_far->time < times[i]; n_steps--) {
            if (n_steps == 0) return;
            if ((so_far->failed = !step(flow))) return;
        }
        interpolate(flow, times[i]);
        memcpy(states + i * flow->n, flow->point, 8 * flow->n);
        losses[i] = evaluate(flow, flow->velocity);
        so_far->n_reached = i + 1;
    }
}

/* A flow at time 0, or null if there is no memory for it; `saccade_flow_end` frees it. */
struct flow *saccade_flow_begin(const struct problem *is, struct progress *so_far) {
    int64_t V = is->tokens, D = is->width, K = is->key_width, n = 2 * D * (V + K), n_pass = V * (5 * V + 4 * D + 5 * K) + 2 * D * K;
    int64_t first = V * D, last = first + 2 * D * K;
    struct flow *flow = calloc(1, sizeof *flow + 8 * (2 * n_pass + (11 + 2 * N_DIFFERENCES) * n));
    if (!flow) return 0;
    double *free_from = (double *)(flow + 1);
    flow->problem = *is, flow->so_far = so_far, flow->n = n;
    for (int which = 0; which < 2; which++) {
        struct pass *pass = which ? &flow->along : &flow->at;
        struct { double **part; int64_t size; } parts[] = {
            {&pass->queries, V * K}, {&pass->keys, V * K}, {&pass->d_queries, V * K}, {&pass->d_keys, V * K}, {&pass->keys_t, V * K},
            {&pass->mean, V * D}, {&pass->d_mean, V * D}, {&pass->embedding_t, V * D}, {&pass->projection_t, V * D},
            {&pass->query_t, D * K}, {&pass->key_t, D * K}, {&pass->attention, V * V}, {&pass->error, V * V}, {&pass->prob, V * V},
            {&pass->d_attention, V * V}, {&pass->d_logits, V * V},
        };
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i].part = free_from, free_from += parts[i].size;
    }
    double **vectors[] = {&flow->point, &flow->velocity, &flow->weight, &flow->inverse_rate, &flow->predicted, &flow->slope,
        &flow->change, &flow->residual, &flow->correction, &flow->direction, &flow->image};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = free_from, free_from += n;
    for (int k = 0; k < N_DIFFERENCES; k++) flow->difference[k] = free_from, flow->carried[k] = free_from + n, free_from += 2 * n;
    for (int64_t i = 0; i < n; i++) {
        double rate = first <= i && i < last ? is->lr_attention : is->lr_decoder;
        flow->inverse_rate[i] = rate > 0 ? 1 / rate : 0; /* what has no rate never has a residual */
        flow->weight[i] = 1 / (is->rtol * fabs(is->start[i]) + is->atol);
    }
    memcpy(flow->difference[0], is->start, 8 * n), memcpy(flow->point, is->start, 8 * n);
    evaluate(flow, flow->velocity);
    derive(flow, flow->velocity, flow->image);
    /* A first step of order 1 whose error is a tenth of what is tolerated; the step before it is taken to be its mirror image. */
    flow->h = flow->span[1] = sqrt(0.2 / fmax(size(flow, flow->image), 1e-300));
    for (int64_t i = 0; i < n; i++) flow->difference[1][i] = flow->h * flow->velocity[i];
    flow->order = flow->depth = 1;
    return flow;
}

/* Velocity where the flow is, and its derivative along a direction. */
void saccade_flow_derivative(struct flow *flow, double *direction, double *velocity, double *image) {
    memcpy(flow->point, flow->difference[0], 8 * flow->n);
    evaluate(flow, velocity);
    derive(flow, direction, image);
}

void saccade_flow_end(struct flow *flow) { free(flow); }
