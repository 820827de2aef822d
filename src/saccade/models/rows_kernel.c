/* Sums of rows of a table that are named one by one, in float32: what models of text spend their time on beside products of matrices.

   Functions for windows (`window_pass.py`) round every product and every sum, as SciPy's sparse product does, so that sums are the same
   to the last bit; hence no FMA. Those for attention that averages embeddings (`token_average.py`) promise no more than rounding. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 8
#define COLUMNS 256

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vector load(const float *from) { return *(const vector *)from; }

INLINE float dot(int64_t n, const float *a, const float *b) {
    vector sum = {0}, more = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        sum += load(a + i) * load(b + i);
        more += load(a + i + LANES) * load(b + i + LANES);
    }
    sum += more;
    float total = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    for (; i < n; i++) total += a[i] * b[i];
    return total;
}

/* Add to `to` (`width` columns) the rows of `table` (n columns) from `row` up to `end`, each times its weight. Four at a time: `to` is
   read and written less often. */
INLINE void add_rows(int64_t n, int64_t width, const int32_t *row, const int32_t *end, const float *weight, const float *table,
                     float *restrict to) {
    for (; row + 4 <= end; row += 4, weight += 4) {
        const float *a = table + row[0] * n, *b = table + row[1] * n, *c = table + row[2] * n, *d = table + row[3] * n;
        for (int64_t i = 0; i < width; i++)
            to[i] = (((to[i] + weight[0] * a[i]) + weight[1] * b[i]) + weight[2] * c[i]) + weight[3] * d[i];
    }
    for (; row < end; row++, weight++) {
        const float *a = table + *row * n;
        for (int64_t i = 0; i < width; i++) to[i] += *weight * a[i];
    }
}

/* Row r of `to` becomes the sum over entries `first[r]` to `first[r + 1]`. Some columns at a time, so that the table stays in the cache. */
INLINE void product(int64_t n_rows, int64_t n, const int32_t *first, const int32_t *row, const float *weight, const float *table,
                    float *to) {
    memset(to, 0, sizeof(float) * n_rows * n);
    for (int64_t c = 0; c < n; c += COLUMNS)
        for (int64_t r = 0; r < n_rows; r++)
            add_rows(n, n - c < COLUMNS ? n - c : COLUMNS, row + first[r], row + first[r + 1], weight + first[r], table + c,
                     to + r * n + c);
}

/* The sum of each pair's rows of `error`: its product with the pair's row of Y is what attention gains, and it is added to that row of
   Y_dot. `sum` has room for one. */
INLINE void pairs(int64_t n_pairs, int64_t n, const int32_t *first, const int32_t *window, const float *weight, const float *error,
                  const int64_t *token, const float *Y, float *restrict Y_dot, float *restrict sum, double *gained) {
    for (int64_t p = 0; p < n_pairs; p++) {
        float *to = Y_dot + token[p] * n;
        memset(sum, 0, sizeof(float) * n);
        add_rows(n, n, window + first[p], window + first[p + 1], weight + first[p], error, sum);
        gained[p] = dot(n, sum, Y + token[p] * n);
        for (int64_t i = 0; i < n; i++) to[i] += sum[i];
    }
}

/* Attention of each window over its tokens, and the average of their embeddings. */
INLINE void attend(int64_t n_windows, int64_t n_positions, int64_t n, const int64_t *ids, const float *table, const float *sought,
                   float *attention, float *restrict average) {
    for (; n_windows--; ids += n_positions, sought += n, attention += n_positions, average += n) {
        float top = -INFINITY, total = 0;
        for (int64_t j = 0; j < n_positions; j++) {
            attention[j] = dot(n, sought, table + ids[j] * n);
            top = attention[j] > top ? attention[j] : top;
        }
        for (int64_t j = 0; j < n_positions; j++) total += attention[j] = expf(attention[j] - top);
        for (int64_t j = 0; j < n_positions; j++) attention[j] /= total;
        memset(average, 0, sizeof(float) * n);
        for (int64_t j = 0; j < n_positions; j++) {
            const float *x = table + ids[j] * n, a = attention[j];
            for (int64_t i = 0; i < n; i++) average[i] += a * x[i];
        }
    }
}

/* For a gradient `slope` by the averages: that by `sought`, and that by the embeddings, which is added to `to_table`. */
INLINE void attend_back(int64_t n_windows, int64_t n_positions, int64_t n, const int64_t *ids, const float *table, const float *sought,
                        const float *attention, const float *average, const float *slope, float *restrict to_table,
                        float *restrict to_sought) {
    for (; n_windows--; ids += n_positions, sought += n, attention += n_positions, average += n, slope += n, to_sought += n) {
        float along = dot(n, average, slope);
        memset(to_sought, 0, sizeof(float) * n);
        for (int64_t j = 0; j < n_positions; j++) {
            const float *x = table + ids[j] * n, a = attention[j], s = a * (dot(n, x, slope) - along);
            float *row = to_table + ids[j] * n;
            for (int64_t i = 0; i < n; i++) {
                row[i] += a * slope[i] + s * sought[i];
                to_sought[i] += s * x[i];
            }
        }
    }
}

/* Each function for processors with wide registers, and for all. */
#if defined(__x86_64__)
#define WIDE(features) __attribute__((target(features)))
static int is_wide(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define WIDE(features)
static int is_wide(void) { return 0; }
#endif
#define EXPORTED(features, name, declared, given)               \
    WIDE(features) static void name##_wide declared { name given; } \
    void saccade_##name declared {                              \
        if (is_wide()) name##_wide given;                       \
        else name given;                                        \
    }

EXPORTED("avx2", product, (int64_t n_rows, int64_t n, const int32_t *first, const int32_t *row, const float *weight,
         const float *table, float *to), (n_rows, n, first, row, weight, table, to))
EXPORTED("avx2", pairs, (int64_t n_pairs, int64_t n, const int32_t *first, const int32_t *window, const float *weight,
         const float *error, const int64_t *token, const float *Y, float *Y_dot, float *sum, double *gained),
         (n_pairs, n, first, window, weight, error, token, Y, Y_dot, sum, gained))
EXPORTED("avx2,fma", attend, (int64_t n_windows, int64_t n_positions, int64_t n, const int64_t *ids, const float *table,
         const float *sought, float *attention, float *average), (n_windows, n_positions, n, ids, table, sought, attention, average))
EXPORTED("avx2,fma", attend_back, (int64_t n_windows, int64_t n_positions, int64_t n, const int64_t *ids, const float *table,
         const float *sought, const float *attention, const float *average, const float *slope, float *to_table, float *to_sought),
         (n_windows, n_positions, n, ids, table, sought, attention, average, slope, to_table, to_sought))

/* Hash of this file when it was compiled: a library of another one is not used. */
const char *saccade_source(void) { return SOURCE; }
