/* Running compiled models from C.
 *
 *   lathe_error error;
 *   lathe_model* model = lathe_model_open("int8.lathe", &error);
 *   lathe_session* session = model ? lathe_session_create(model, NULL, &error) : NULL;
 *   if (!session) { fprintf(stderr, "%s\n", error.text); return 1; }
 *   if (!lathe_session_run(session, inputs, outputs, &error)) ...
 *   lathe_session_free(session);
 *   lathe_model_free(model);
 *
 * The same library as lathe/model.h and lathe/session.h, with the same promises: the file is mapped and weights are not copied; a
 * model may be shared between threads, a session belongs to one thread at a time; running allocates nothing; the library never
 * prints, aborts or exits.
 *
 * Errors: functions that can fail return null or 0 and fill `error` if it is not null. Nothing else is remembered.
 */
#ifndef LATHE_LATHE_H
#define LATHE_LATHE_H

#include <stddef.h>
#include <stdint.h>

#include "lathe/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_MAX_RANK 8

/* Element types; numbers as in model files. */
enum lathe_dtype {
#define LATHE_DTYPE(name, number, bytes, text) LATHE_##name = number,
#include "lathe/dtype.def"
#undef LATHE_DTYPE
};

/* One sentence, cut at the buffer's end, and a code (lathe/status.h): 1 invalid argument, 2 unsupported, 3 corrupt, 4 made by a
 * newer version, 5 out of memory, 6 input or output error. */
typedef struct lathe_error {
  int code;
  char text[508];
} lathe_error;

/* dims[0 .. rank), outermost first. */
typedef struct lathe_shape {
  uint32_t rank;
  int32_t dims[LATHE_MAX_RANK];
} lathe_shape;

typedef struct lathe_tensor_info {
  const char* name; /* lives as long as the model */
  enum lathe_dtype dtype;
  lathe_shape shape; /* -1: a dim that the caller chooses at lathe_session_bind() */
  int has_quant;     /* real = (q - zero_point) * scale */
  float scale;
  int32_t zero_point;
} lathe_tensor_info;

typedef struct lathe_model lathe_model;
typedef struct lathe_session lathe_session;

/* The version of the library, as LATHE_VERSION is that of the header. */
int lathe_version(void);

/* Maps a `.lathe` file that holds a plan. */
lathe_model* lathe_model_open(const char* path, lathe_error* error);
/* Uses a model file in memory, on a 64-byte boundary, that outlives the model and its sessions. */
lathe_model* lathe_model_from_memory(const void* bytes, size_t size, lathe_error* error);
/* Null is allowed. Sessions of the model stay valid. */
void lathe_model_free(lathe_model* model);

size_t lathe_model_input_count(const lathe_model* model);
size_t lathe_model_output_count(const lathe_model* model);
/* 0 if there is no such input or output. */
int lathe_model_input(const lathe_model* model, size_t index, lathe_tensor_info* info);
int lathe_model_output(const lathe_model* model, size_t index, lathe_tensor_info* info);

typedef struct lathe_session_options {
  uint32_t threads; /* 0: as many as this process may use CPUs */
  const char* isa;  /* the highest instruction set to use, or null: see SessionConfig in lathe/session.h */
  int padded_inputs; /* not 0: every input array may be read up to 63 bytes past its end, which saves copying some of them */
} lathe_session_options;

/* options: null is one thread on the machine's instruction set. Models without open dims can run at once. */
lathe_session* lathe_session_create(const lathe_model* model, const lathe_session_options* options, lathe_error* error);
void lathe_session_free(lathe_session* session);

/* Prepares for input shapes, one per input. */
int lathe_session_bind(lathe_session* session, const lathe_shape* shapes, size_t count, lathe_error* error);
/* The shape of an output for the bound inputs; 0 if there is no such output or nothing is bound. Where a shape depends on data
   its dims are -1 until a run. */
int lathe_session_output_shape(const lathe_session* session, size_t index, lathe_shape* shape);
/* The bytes of an output whose shape depends on data, valid until the next run; null for all others. */
const void* lathe_session_output_data(const lathe_session* session, size_t index);
/* One run over dense row-major arrays, one pointer per input and per output; null for outputs whose shape depends on data. */
int lathe_session_run(lathe_session* session, const void* const* inputs, void* const* outputs, lathe_error* error);
/* Recurrent and streaming state back to its initial values. */
void lathe_session_reset(lathe_session* session);
/* Bytes of intermediate results and scratch. */
uint64_t lathe_session_arena_bytes(const lathe_session* session);

#ifdef __cplusplus
}
#endif

#endif
