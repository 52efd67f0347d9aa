/* The same in C: opens a compiled model, runs it once on zeros and prints the first results.
 *
 *   embed_c model.lathe
 *
 * Build outside of this tree: gcc embed.c $(pkg-config --cflags --libs --static lathe)
 */
#include <stdio.h>
#include <stdlib.h>

#include "lathe/lathe.h"

enum { kMaxPorts = 16 };

static size_t elements(const lathe_shape* shape) {
  size_t n = 1;
  for (uint32_t i = 0; i < shape->rank; ++i) n *= (size_t)shape->dims[i];
  return n;
}

static size_t element_bytes(enum lathe_dtype type) {
  switch (type) {
#define LATHE_DTYPE(name, number, bytes, text) \
  case LATHE_##name: return bytes;
#include "lathe/dtype.def"
#undef LATHE_DTYPE
  }
  return 0;
}

static int run(const lathe_model* model, lathe_session* session, lathe_error* error) {
  const size_t n_in = lathe_model_input_count(model), n_out = lathe_model_output_count(model);
  lathe_shape shapes[kMaxPorts];
  void* in[kMaxPorts];
  void* out[kMaxPorts];
  int ok = 0;
  size_t i;
  if (n_in > kMaxPorts || n_out > kMaxPorts) return 0;
  for (i = 0; i < n_in; ++i) {
    lathe_tensor_info info;
    lathe_model_input(model, i, &info);
    shapes[i] = info.shape;
    for (uint32_t k = 0; k < info.shape.rank; ++k)
      if (shapes[i].dims[k] < 0) shapes[i].dims[k] = 1; /* one sample */
    in[i] = calloc(elements(&shapes[i]), element_bytes(info.dtype));
  }
  ok = lathe_session_bind(session, shapes, n_in, error);
  for (i = 0; i < n_out; ++i) {
    lathe_tensor_info info;
    lathe_shape shape;
    lathe_model_output(model, i, &info);
    out[i] = ok && lathe_session_output_shape(session, i, &shape) ? calloc(elements(&shape), element_bytes(info.dtype)) : NULL;
  }
  if (ok) ok = lathe_session_run(session, (const void* const*)in, out, error);
  for (i = 0; ok && i < n_out; ++i) {
    lathe_tensor_info info;
    lathe_shape shape;
    lathe_model_output(model, i, &info);
    lathe_session_output_shape(session, i, &shape);
    printf("output %s:", info.name);
    for (size_t k = 0; k < elements(&shape) && k < 10; ++k) {
      if (info.dtype == LATHE_F32) printf(" %g", ((const float*)out[i])[k]);
      else printf(" %g", (((const int8_t*)out[i])[k] - info.zero_point) * info.scale);
    }
    printf("\n");
  }
  for (i = 0; i < n_in; ++i) free(in[i]);
  for (i = 0; i < n_out; ++i) free(out[i]);
  return ok;
}

int main(int argc, char** argv) {
  lathe_error error = {0, "too many inputs or outputs"};
  lathe_model* model = NULL;
  lathe_session* session = NULL;
  int ok = 0;
  if (argc != 2) {
    fprintf(stderr, "usage: embed_c model.lathe\n");
    return 2;
  }
  model = lathe_model_open(argv[1], &error);
  if (model != NULL) session = lathe_session_create(model, NULL, &error);
  if (session != NULL) ok = run(model, session, &error);
  if (!ok) fprintf(stderr, "%s\n", error.text);
  lathe_session_free(session);
  lathe_model_free(model);
  return ok ? 0 : 1;
}
