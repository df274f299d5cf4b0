/* Runs one case of Intel ISA-L per input line and prints its CPU nanoseconds.
 *   peer I R SHARD_BYTES GROUPS LOST      LOST 0 encodes; the matrix inversion and its tables are computed once and not timed
 */
#include <isa-l/erasure_code.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	int k = atoi(argv[1]), r = atoi(argv[2]), bytes = atoi(argv[3]), groups = atoi(argv[4]), lost = atoi(argv[5]);
	unsigned char *matrix = malloc((k + r) * k), *left = malloc(k * k), *inverse = malloc(k * k);
	unsigned char *rows = malloc((r + 1) * k), *tables = malloc(32 * k * (r + 1));
	unsigned char **shards = malloc(sizeof *shards * groups * (k + r)), **out = malloc(sizeof *out * (r + 1));
	unsigned char **sources = malloc(sizeof *sources * k);
	int *present = malloc(sizeof *present * k), *gone = malloc(sizeof *gone * (r + 1));
	uint64_t state = 1;

	gf_gen_cauchy1_matrix(matrix, k + r, k);
	for (int i = 0; i < groups * (k + r); i++) {
		shards[i] = aligned_alloc(64, bytes);
		for (int x = 0; x < bytes; x++) {
			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			shards[i][x] = state >> 56;
		}
	}
	for (int i = 0; i < lost; i++) {
		gone[i] = i * k / lost;
		out[i] = aligned_alloc(64, bytes);
	}
	for (int p = 0, n = 0, g = 0; n < k; p++) {
		if (g < lost && p == gone[g])
			g++;
		else
			present[n++] = p;
	}
	if (lost) {
		for (int i = 0; i < k; i++)
			memcpy(left + i * k, matrix + present[i] * k, k);
		if (gf_invert_matrix(left, inverse, k))
			return 3;
		for (int i = 0; i < lost; i++)
			memcpy(rows + i * k, inverse + gone[i] * k, k);
		ec_init_tables(k, lost, rows, tables);
	} else {
		ec_init_tables(k, r, matrix + k * k, tables);
	}
	/* "vectors": print redundancy of a small known codeword, for known-answer tests. */
	if (getenv("VECTORS")) {
		for (int i = 0; i < k; i++)
			for (int x = 0; x < bytes; x++)
				shards[i][x] = i * 7 + x * 13 + 1;
		ec_encode_data(bytes, k, r, tables, shards, shards + k);
		for (int i = 0; i < r; i++, puts(""))
			for (int x = 0; x < bytes; x++)
				printf("%02x", shards[k + i][x]);
		return 0;
	}
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		long long start = cpu();
		for (int g = 0; g < groups; g++) {
			unsigned char **group = shards + g * (k + r);
			if (lost) {
				for (int i = 0; i < k; i++)
					sources[i] = group[present[i]];
				ec_encode_data(bytes, k, lost, tables, sources, out);
			} else {
				ec_encode_data(bytes, k, r, tables, group, group + k);
			}
		}
		printf("%lld\n", cpu() - start);
		fflush(stdout);
	}
	return 0;
}
