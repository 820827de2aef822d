/* Mini-batch SGD of the pairwise model, one run at a time, in float32: the formulas of models/pairwise.py without filler rows.

   Contexts come sorted by class. A class reads the decoder rows of its own few tokens, so one step is, class by class, two products of
   small matrices with a softmax between them. The gradient of a class's own rows is applied as soon as it is in registers; rows shared
   by classes wait until all classes have been read. Every sum has one order, whatever the number of threads: a run belongs to one.

   Columns are padded to a multiple of LANES: their `log_size` is -infinity, so that they weigh nothing and never move. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define TILE_ROWS 6 /* of a tile of products; the more rows, the fewer columns, so that AVX2's 16 registers hold its sums */
#define TILE_VECTORS 8
#define UNROLLED _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t whole __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* One run and the steps it takes. The same fields in the same order as `_Run` in descent_kernel.py. */
struct run {
    int64_t n_steps, n_classes, n_shared, n_own, n_queries, n_columns; /* n_columns: with the padding */
    int64_t most_contexts;  /* that a class has in a step */
    int64_t step_stride;    /* contexts from one step to the next, or 0 if all steps read the same */
    const float *counts;    /* context, slot; in the order they were drawn, slots padded to a multiple of LANES */
    const int32_t *order;   /* context: where it stands among the drawn ones of its step, class by class */
    const int32_t *first;   /* step, class and one more: where the contexts of a class begin in `order` */
    const float *weight;    /* class: share of one of its contexts in the loss */
    const int32_t *query;   /* class */
    const int32_t *target;  /* class: column of its next token */
    const float *log_size;  /* column: logarithm of the tokens it stands for */
    const float *per_token; /* column: 1 over the tokens it stands for */
    float lr_decoder, lr_attention, momentum, largest_loss;
    float *decoder_shared, *decoder_own, *attention_shared, *attention_own;         /* parameters, changed in place */
    float *decoder_shared_m, *decoder_own_m, *attention_shared_m, *attention_own_m; /* their momentum */
    const int32_t *saved_as; /* step: where its state is saved, or -1 */
    float *loss, *saved_attention_shared, *saved_attention_own, *saved_decoder_shared, *saved_decoder_own; /* decoders may be null */
};

/* exp of numbers that are at most 0; below -87 it is 0. NaN is lost, but the loss notices it. */
INLINE vector exp_of_negative(vector x) {
    const float round_off = 12582912.0f; /* 1.5 * 2^23: adding it leaves a whole number in the low bits */
    whole tiny = x < -87.0f;
    vector t = x * 1.44269504f + round_off;
    vector n = t - round_off;
    vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vector p = r * (1.0f / 5040) + (1.0f / 720);
    p = p * r + (1.0f / 120);
    p = p * r + (1.0f / 24);
    p = p * r + (1.0f / 6);
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    whole power = ((whole)t - 0x4B400000 + 127) << 23;
    return (vector)((whole)(p * (vector)power) & ~tiny);
}

/* Logarithm of positive numbers that are not subnormal. */
INLINE vector log_of(vector x) {
    whole bits = (whole)x - 0x3F3504F3; /* sqrt(1/2): what is left of x lies in [0.7, 1.42) */
    whole power = bits >> 23;
    vector s = (vector)((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
    vector q = s / (s + 2.0f), w = q * q; /* ln(1 + s) = 2 artanh(q), |q| < 0.18 */
    vector series = (((w * (1.0f / 9) + (1.0f / 7)) * w + (1.0f / 5)) * w + (1.0f / 3)) * w;
    vector n = __builtin_convertvector(power, vector);
    return n * 0.693359375f + ((q + q) * series - n * 2.12194440e-4f + (q + q));
}

INLINE vector all(float value) { return (vector){value, value, value, value, value, value, value, value}; }
INLINE vector chosen(whole is, vector yes, vector no) { return (vector)(((whole)yes & is) | ((whole)no & ~is)); }
INLINE vector larger(vector a, vector b) { return chosen(a > b, a, b); }
INLINE float max(float a, float b) { return a > b ? a : b; }
INLINE float largest(vector v) { return max(max(max(v[0], v[4]), max(v[2], v[6])), max(max(v[1], v[5]), max(v[3], v[7]))); }
INLINE float total(vector v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
INLINE vector load(const float *from) { return *(const vector *)from; }
INLINE void store(float *to, vector v) { *(vector *)to = v; }

/* What one pass over the contexts of a class works on. */
struct pass {
    int64_t n_contexts, n_slots, n_padded, n_columns; /* n_padded: slots, padded to a multiple of LANES */
    float *feature;                                   /* context, slot */
    float *logits;                                    /* context, column; then what the gradient needs of them */
    float **decoder, **memory;                        /* slot: its row of the decoder, and where its gradient goes */
    float *z, *exp_z, *slot_gradient;                 /* slot */
    float *at_target, *highest, *others, *weighed, *scale, *along; /* context */
    float *shared_gradient, *attention_gradient;      /* shared slot, column; query, shared slot: of all classes of a step */
};

/* counts times exp(z - its largest among the tokens of this context), and the sum of squares. */
INLINE float sought_here(const struct pass *pass, const float *counts, float *feature) {
    vector top = all(-INFINITY), square = {0};
    for (int64_t s = 0; s < pass->n_padded; s += LANES)
        top = larger(chosen(load(counts + s) > 0, load(pass->z + s), all(-INFINITY)), top);
    float highest = largest(top);
    for (int64_t s = 0; s < pass->n_padded; s += LANES) {
        vector below = load(pass->z + s) - highest; /* a token that is absent may be above it, and has no weight */
        vector sought = load(counts + s) * exp_of_negative(chosen(below < 0, below, all(0)));
        square += sought * sought;
        store(feature + s, sought);
    }
    return total(square);
}

/* f of one context: counts times exp(z) over its Euclidean norm. exp(z) is that of the class, scaled by its most sought token, unless
   the context has so little of what is sought that this loses digits. */
INLINE void features(const struct pass *pass, const float *counts, float *feature) {
    vector squares = {0};
    for (int64_t s = 0; s < pass->n_padded; s += LANES) {
        vector sought = load(counts + s) * load(pass->exp_z + s);
        squares += sought * sought;
        store(feature + s, sought);
    }
    float square = total(squares);
    if (square < 1e-12f) square = sought_here(pass, counts, feature);
    float scale = square > 0 ? 1 / sqrtf(square) : 1;
    for (int64_t s = 0; s < pass->n_padded; s += LANES) store(feature + s, load(feature + s) * scale);
}

/* Logits of `rows` contexts from `context` on, at `vectors` times LANES columns. `rows` and `vectors` are constants in every call. */
INLINE void logits_tile(const struct pass *pass, int rows, int vectors, int64_t context, int64_t column) {
    const float *feature = pass->feature + context * pass->n_padded;
    float *logits = pass->logits + context * pass->n_columns + column;
    vector sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = (vector){0};
    for (int64_t s = 0; s < pass->n_slots; s++)
        for (int v = 0; v < vectors; v++) {
            vector y = load(pass->decoder[s] + column + v * LANES);
            for (int i = 0; i < rows; i++) sum[i][v] += feature[i * pass->n_padded + s] * y;
        }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) store(logits + i * pass->n_columns + v * LANES, sum[i][v]);
}

INLINE void logits_of(const struct pass *pass, int rows, int vectors, int64_t context) {
    int64_t column = 0;
    for (; column + vectors * LANES <= pass->n_columns; column += vectors * LANES) logits_tile(pass, rows, vectors, context, column);
    for (; column < pass->n_columns; column += LANES) logits_tile(pass, rows, 1, context, column);
}

/* Logits of a context become exponentials of those other than the target's; it has 0. */
INLINE void exponentials(const struct run *run, const struct pass *pass, int64_t target, int64_t context) {
    float *row = pass->logits + context * run->n_columns;
    vector top = all(-INFINITY), sum = {0}, weighed = {0};
    pass->at_target[context] = row[target];
    row[target] = -1e30f; /* finite, as it is multiplied by its weight of 0 */
    for (int64_t j = 0; j < run->n_columns; j += LANES) top = larger(load(row + j) + load(run->log_size + j), top);
    float highest = largest(top);
    for (int64_t j = 0; j < run->n_columns; j += LANES) {
        vector logit = load(row + j), other = exp_of_negative(logit + load(run->log_size + j) - highest);
        sum += other;
        weighed += other * logit;
        store(row + j, other);
    }
    pass->highest[context] = highest;
    pass->others[context] = total(sum);
    pass->weighed[context] = total(weighed);
    row[target] = -pass->others[context];
}

/* Loss of the contexts, and for each what turns its exponentials into the error e_n - alpha (`scale`) and into f . g (`along`). */
INLINE float losses(const struct run *run, const struct pass *pass, int64_t n) {
    vector sum = {0}, weight = all(run->weight[n]);
    for (int64_t r = pass->n_contexts; r % LANES; r++) /* fillers: no loss, and numbers that raise no questions */
        pass->others[r] = 1, pass->highest[r] = -1e30f, pass->at_target[r] = 0, pass->weighed[r] = 0;
    for (int64_t r = 0; r < pass->n_contexts; r += LANES) {
        vector others = load(pass->others + r), at_target = load(pass->at_target + r);
        vector deficit = load(pass->highest + r) + log_of(others) - at_target;
        whole is_behind = deficit > 0;
        vector tail = exp_of_negative(chosen(is_behind, -deficit, deficit)), one_more = 1 + tail;
        vector push = weight * chosen(is_behind, all(1), tail) / one_more;
        vector tail_loss = log_of(one_more) + (tail - (one_more - 1)) / one_more; /* ln(1 + tail), exact for the smallest tails too */
        sum += weight * (chosen(is_behind, deficit, all(0)) + tail_loss);
        store(pass->scale + r, -push / others);
        store(pass->along + r, push * (at_target - load(pass->weighed + r) / others));
    }
    return total(sum);
}

/* Where the tile of rows from `begin` on ends: tiles are as even as can be, for a single row left over would cost as much as three. */
INLINE int64_t end_of_tile(int64_t begin, int64_t end) {
    int64_t left = end - begin, tiles = (left + TILE_ROWS - 1) / TILE_ROWS;
    return begin + (left + tiles - 1) / tiles;
}

/* The gradient of `rows` decoder rows from slot `slot` on: summed up for later if they are shared, else applied at once. Its product
   with the decoder is what attention gains. `rows`, `vectors` and `is_shared` are constants in every call. */
INLINE void gradient_tile(
    const struct run *run, const struct pass *pass, int rows, int vectors, int is_shared, int64_t slot, int64_t column, vector *gained
) {
    const float momentum = run->momentum, rate = run->lr_decoder, *per_token = run->per_token + column;
    vector sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = (vector){0};
    for (int64_t r = 0; r < pass->n_contexts; r++)
        for (int v = 0; v < vectors; v++) {
            vector error = load(pass->logits + r * pass->n_columns + column + v * LANES);
            for (int i = 0; i < rows; i++) sum[i][v] += pass->feature[r * pass->n_padded + slot + i] * error;
        }
    UNROLLED for (int i = 0; i < rows; i++) {
        float *decoder = pass->decoder[slot + i] + column, *memory = pass->memory[slot + i] + column;
        UNROLLED for (int v = 0; v < vectors; v++) {
            vector y = load(decoder + v * LANES), moved = load(memory + v * LANES);
            gained[i] += y * sum[i][v];
            if (is_shared) {
                store(memory + v * LANES, moved + sum[i][v]);
            } else {
                moved = momentum * moved + sum[i][v] * load(per_token + v * LANES);
                store(memory + v * LANES, moved);
                store(decoder + v * LANES, y + rate * moved);
            }
        }
    }
}

INLINE void gradient_of(const struct run *run, const struct pass *pass, int rows, int vectors, int is_shared, int64_t slot) {
    vector gained[TILE_ROWS] = {{0}};
    int64_t column = 0;
    for (; column + vectors * LANES <= pass->n_columns; column += vectors * LANES)
        gradient_tile(run, pass, rows, vectors, is_shared, slot, column, gained);
    for (; column < pass->n_columns; column += LANES) gradient_tile(run, pass, rows, 1, is_shared, slot, column, gained);
    for (int i = 0; i < rows; i++) pass->slot_gradient[slot + i] += total(gained[i]);
}

/* Of the slots from `slot` to `end`. */
INLINE void gradients(const struct run *run, const struct pass *pass, int is_shared, int64_t slot, int64_t end) {
    for (int64_t s = slot, next; s < end; s = next) {
        next = end_of_tile(s, end);
        switch (next - s) {
            case 1: gradient_of(run, pass, 1, 8, is_shared, s); break;
            case 2: gradient_of(run, pass, 2, 6, is_shared, s); break;
            case 3: gradient_of(run, pass, 3, 4, is_shared, s); break;
            case 4: gradient_of(run, pass, 4, 3, is_shared, s); break;
            case 5: gradient_of(run, pass, 5, 2, is_shared, s); break;
            default: gradient_of(run, pass, 6, 2, is_shared, s);
        }
    }
}

INLINE void step_of_momentum(float *part, float *memory, const float *gradient, int64_t n, float momentum, float rate) {
    for (int64_t i = 0; i < n; i++) {
        memory[i] = momentum * memory[i] + gradient[i];
        part[i] += rate * memory[i];
    }
}

/* A class that no context of this batch is of: its own rows move on by their momentum. */
INLINE void coast(const struct run *run, int64_t n) {
    int64_t size = run->n_own * run->n_columns;
    float *decoder = run->decoder_own + n * size, *decoder_m = run->decoder_own_m + n * size;
    float *z = run->attention_own + n * run->n_own, *z_m = run->attention_own_m + n * run->n_own;
    if (run->momentum == 0) return;
    for (int64_t i = 0; i < size; i++) decoder_m[i] *= run->momentum, decoder[i] += run->lr_decoder * decoder_m[i];
    for (int64_t i = 0; i < run->n_own; i++) z_m[i] *= run->momentum, z[i] += run->lr_attention * z_m[i];
}

/* All contexts of class n in one step, forward and back; returns their part of the loss. */
INLINE float of_class(const struct run *run, const struct pass *pass, const float *counts, const int32_t *order, int64_t n) {
    int64_t n_shared = run->n_shared, n_own = run->n_own, n_slots = pass->n_slots, n_columns = run->n_columns, n_padded = pass->n_padded;
    float *of_query = pass->attention_gradient + run->query[n] * n_shared;
    memcpy(pass->z, run->attention_shared + run->query[n] * n_shared, sizeof(float) * n_shared);
    memcpy(pass->z + n_shared, run->attention_own + n * n_own, sizeof(float) * n_own);
    for (int64_t s = n_slots; s < n_padded; s++) pass->z[s] = -INFINITY;
    vector top = all(-INFINITY);
    for (int64_t s = 0; s < n_padded; s += LANES) top = larger(load(pass->z + s), top);
    float highest = largest(top);
    for (int64_t s = 0; s < n_padded; s += LANES) store(pass->exp_z + s, exp_of_negative(load(pass->z + s) - highest));
    for (int64_t s = n_shared; s < n_slots; s++) {
        pass->decoder[s] = run->decoder_own + (n * n_own + s - n_shared) * n_columns;
        pass->memory[s] = run->decoder_own_m + (n * n_own + s - n_shared) * n_columns;
    }
    for (int64_t r = 0; r < pass->n_contexts; r++) features(pass, counts + order[r] * n_padded, pass->feature + r * n_padded);
    for (int64_t r = 0, end; r < pass->n_contexts; r = end) {
        end = end_of_tile(r, pass->n_contexts);
        switch (end - r) {
            case 1: logits_of(pass, 1, 8, r); break;
            case 2: logits_of(pass, 2, 6, r); break;
            case 3: logits_of(pass, 3, 4, r); break;
            case 4: logits_of(pass, 4, 3, r); break;
            case 5: logits_of(pass, 5, 2, r); break;
            default: logits_of(pass, 6, 2, r);
        }
    }
    for (int64_t r = 0; r < pass->n_contexts; r++) exponentials(run, pass, run->target[n], r);
    float loss = losses(run, pass, n);
    memset(pass->slot_gradient, 0, sizeof(float) * n_padded);
    for (int64_t r = 0; r < pass->n_contexts; r++)
        for (int64_t s = 0; s < n_padded; s += LANES) {
            float *at = pass->feature + r * n_padded + s;
            vector f = load(at);
            store(pass->slot_gradient + s, load(pass->slot_gradient + s) - f * f * pass->along[r]);
            store(at, f * pass->scale[r]);
        }
    gradients(run, pass, 1, 0, n_shared);
    gradients(run, pass, 0, n_shared, n_slots);
    for (int64_t s = 0; s < n_shared; s++) of_query[s] += pass->slot_gradient[s];
    float *z = run->attention_own + n * n_own, *z_m = run->attention_own_m + n * n_own;
    step_of_momentum(z, z_m, pass->slot_gradient + n_shared, n_own, run->momentum, run->lr_attention);
    return loss;
}

static void save(const struct run *run, int64_t place) {
    int64_t shared = run->n_queries * run->n_shared, own = run->n_classes * run->n_own;
    memcpy(run->saved_attention_shared + place * shared, run->attention_shared, sizeof(float) * shared);
    memcpy(run->saved_attention_own + place * own, run->attention_own, sizeof(float) * own);
    if (run->saved_decoder_own == NULL) return;
    shared = run->n_shared * run->n_columns, own *= run->n_columns;
    memcpy(run->saved_decoder_shared + place * shared, run->decoder_shared, sizeof(float) * shared);
    memcpy(run->saved_decoder_own + place * own, run->decoder_own, sizeof(float) * own);
}

/* One update from the contexts of a step; returns their loss before it. */
INLINE float update(const struct run *run, struct pass *pass, const float *counts, const int32_t *order, const int32_t *first) {
    int64_t n_shared = run->n_shared, n_columns = run->n_columns;
    float loss = 0;
    memset(pass->shared_gradient, 0, sizeof(float) * n_shared * n_columns);
    memset(pass->attention_gradient, 0, sizeof(float) * run->n_queries * n_shared);
    for (int64_t n = 0; n < run->n_classes; n++) {
        pass->n_contexts = first[n + 1] - first[n];
        if (pass->n_contexts) loss += of_class(run, pass, counts, order + first[n], n);
        else coast(run, n);
    }
    for (int64_t s = 0; s < n_shared; s++)
        for (int64_t j = 0; j < n_columns; j++) pass->shared_gradient[s * n_columns + j] *= run->per_token[j];
    step_of_momentum(
        run->decoder_shared, run->decoder_shared_m, pass->shared_gradient, n_shared * n_columns, run->momentum, run->lr_decoder
    );
    step_of_momentum(
        run->attention_shared, run->attention_shared_m, pass->attention_gradient, run->n_queries * n_shared, run->momentum,
        run->lr_attention
    );
    return loss;
}

/* The first step whose loss is beyond all bounds, where the run ends, or `n_steps`. */
INLINE int64_t descend(const struct run *run, struct pass *pass) {
    for (int64_t step = 0; step < run->n_steps; step++) {
        int64_t context = step * run->step_stride;
        const int32_t *first = run->first + (run->step_stride ? step * (run->n_classes + 1) : 0);
        if (run->saved_as[step] >= 0) save(run, run->saved_as[step]);
        float loss = update(run, pass, run->counts + context * pass->n_padded, run->order + context, first);
        if (run->saved_as[step] >= 0) run->loss[run->saved_as[step]] = loss;
        if (!(loss <= run->largest_loss)) return step;
    }
    return run->n_steps;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static int64_t descend_by_avx2(const struct run *run, struct pass *pass) {
    return descend(run, pass);
}
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
static int64_t descend_by_avx2(const struct run *run, struct pass *pass) { return descend(run, pass); }
static int has_avx2(void) { return 0; }
#endif
static int64_t descend_anywhere(const struct run *run, struct pass *pass) { return descend(run, pass); }

/* As `descend`; -1 if there is no memory for it. */
static int64_t descended(const struct run *run) {
    int64_t n_slots = run->n_shared + run->n_own, n_padded = (n_slots + LANES - 1) / LANES * LANES, n_columns = run->n_columns;
    struct pass pass = {.n_slots = n_slots, .n_padded = n_padded, .n_columns = n_columns};
    int64_t n_rows = (run->most_contexts + LANES - 1) / LANES * LANES;
    struct {
        float **part;
        int64_t size;
    } parts[] = {
        {&pass.feature, n_rows * n_padded}, {&pass.logits, n_rows * n_columns}, {&pass.shared_gradient, run->n_shared * n_columns},
        {&pass.attention_gradient, run->n_queries * run->n_shared}, {&pass.z, n_padded}, {&pass.exp_z, n_padded},
        {&pass.slot_gradient, n_padded}, {&pass.at_target, n_rows}, {&pass.highest, n_rows}, {&pass.others, n_rows},
        {&pass.weighed, n_rows}, {&pass.scale, n_rows}, {&pass.along, n_rows},
    };
    const int n_parts = sizeof(parts) / sizeof(parts[0]);
    int64_t wanted = 0, reached = -1;
    for (int i = 0; i < n_parts; i++) wanted += (parts[i].size + 15) / 16 * 16;
    float *numbers = aligned_alloc(64, sizeof(float) * wanted), *next = numbers, **rows = malloc(sizeof(float *) * 2 * n_slots);
    if (numbers != NULL && rows != NULL) {
        for (int i = 0; i < n_parts; next += (parts[i].size + 15) / 16 * 16, i++) *parts[i].part = next;
        pass.decoder = rows, pass.memory = rows + n_slots;
        for (int64_t s = 0; s < run->n_shared; s++) {
            pass.decoder[s] = run->decoder_shared + s * n_columns;
            pass.memory[s] = pass.shared_gradient + s * n_columns;
        }
        reached = has_avx2() ? descend_by_avx2(run, &pass) : descend_anywhere(run, &pass);
    }
    free(numbers);
    free(rows);
    return reached;
}

/* Runs in turn, and how many steps each took; not 0 if there is no memory for one. */
int64_t saccade_descend(const struct run *runs, int64_t n_runs, int64_t *taken) {
    for (int64_t i = 0; i < n_runs; i++)
        if ((taken[i] = descended(runs + i)) < 0) return -1;
    return 0;
}

/* Philox 4x64-10, as in `numpy.random.Philox`: the draws of a step are those of a counter that starts at (0, 0, 0, step). */
struct philox {
    uint64_t key[2], counter[4], buffer[4];
    int next;
};

static void philox_round(uint64_t *c, const uint64_t *key) {
    unsigned __int128 a = (unsigned __int128)0xD2E7470EE14C6C93u * c[0], b = (unsigned __int128)0xCA5A826395121157u * c[2];
    uint64_t moved[4] = {(uint64_t)(b >> 64) ^ c[1] ^ key[0], (uint64_t)b, (uint64_t)(a >> 64) ^ c[3] ^ key[1], (uint64_t)a};
    memcpy(c, moved, sizeof moved);
}

/* Uniform in [0, 1). A step never draws 2^64 numbers, so that only the first word of the counter moves. */
static double uniform(struct philox *rng) {
    if (rng->next == 4) {
        uint64_t key[2] = {rng->key[0], rng->key[1]};
        rng->counter[0]++;
        memcpy(rng->buffer, rng->counter, sizeof rng->buffer);
        for (int round = 0; round < 10; round++) {
            philox_round(rng->buffer, key);
            key[0] += 0x9E3779B97F4A7C15u, key[1] += 0xBB67AE8584CAA73Bu;
        }
        rng->next = 0;
    }
    return (double)(rng->buffer[rng->next++] >> 11) * 0x1p-53;
}

#define LARGEST_MEAN 30 /* beyond it NumPy rejects instead of adding up probabilities; such contexts are left to it */
#define LARGEST_COUNT 100 /* ten standard deviations beyond that mean are 86 */

/* A token among those that are left, by the chance of it or, if that is over 1/2, of any other. */
struct chance {
    double p, log_q, odds;
    int is_other;
};

/* A binomial number by inversion: the first count at which the probabilities of the lower ones exceed a uniform number. It begins
   anew if it gets ten standard deviations beyond the mean, where rounding may have eaten the rest. */
static int64_t binomial(struct philox *rng, int64_t n, const struct chance *chance, const double *inverse) {
    double none = exp(n * chance->log_q), odds = chance->odds, mean = n * chance->p;
    double bound = mean + 10 * sqrt(mean * (1 - chance->p) + 1), left = uniform(rng), here = none;
    int64_t most = bound < n ? (int64_t)bound : n, count = 0;
    while (left > here) {
        if (++count > most) {
            count = 0, here = none, left = uniform(rng);
        } else {
            left -= here;
            here *= (n - count + 1) * inverse[count] * odds;
        }
    }
    return count;
}

/* The contexts of consecutive steps, the same as in batches.py; returns how many steps were drawn before one that needs NumPy. */
int64_t saccade_draw(
    const uint64_t *key, int64_t first_step, int64_t n_steps, int64_t batch, int64_t context, int64_t n_classes, int64_t n_slots,
    int64_t n_padded, const double *cumulative, const double *token_prob, int64_t *classes, float *counts
) {
    double inverse[LARGEST_COUNT];
    struct chance *chances = malloc(sizeof(struct chance) * n_classes * n_slots);
    int64_t step = 0;
    if (chances == NULL) return 0;
    for (int i = 1; i < LARGEST_COUNT; i++) inverse[i] = 1.0 / i;
    for (int64_t n = 0; n < n_classes; n++) {
        double share = 1;
        for (int64_t s = n * n_slots; s < (n + 1) * n_slots; share -= token_prob[s++]) {
            double p = token_prob[s] / share, smaller = p <= 0.5 ? p : 1 - p;
            chances[s] = (struct chance){smaller, log(1 - smaller), smaller / (1 - smaller), p > 0.5};
        }
    }
    for (; step < n_steps; step++, classes += batch, counts += batch * n_padded) {
        struct philox rng = {{key[0], key[1]}, {0, 0, 0, (uint64_t)(first_step + step)}, {0}, 4};
        for (int64_t r = 0; r < batch; r++) {
            double drawn = uniform(&rng);
            int64_t low = 0, high = n_classes - 1;
            while (low < high) {
                int64_t middle = (low + high) / 2;
                if (cumulative[middle] <= drawn) low = middle + 1;
                else high = middle;
            }
            classes[r] = low;
        }
        for (int64_t r = 0; r < batch; r++) {
            const struct chance *chance = chances + classes[r] * n_slots;
            int64_t left = context;
            for (int64_t s = 0; s < n_slots - 1 && left > 0; s++) {
                if (token_prob[classes[r] * n_slots + s] == 0) continue;
                if (chance[s].p * left > LARGEST_MEAN) goto end;
                int64_t count = binomial(&rng, left, chance + s, inverse);
                count = chance[s].is_other ? left - count : count;
                counts[r * n_padded + s] = (float)count;
                left -= count;
            }
            if (left > 0) counts[r * n_padded + n_slots - 1] = (float)left;
        }
    }
end:
    free(chances);
    return step;
}

/* Hash of this file when it was compiled: a library of another one is not used. */
const char *saccade_source(void) { return SOURCE; }
