// The part of ONNX Runtime's C API that ort_peer.cc calls, declared here so that its headers are not needed.
//
// OrtGetApiBase() gives a table of functions. ONNX Runtime only ever appends to it, so a position is for ever; a call through
// position i is a call of the i-th function of its OrtApi.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lathe::peers {

using OrtHandle = void*;  // each opaque type of the API
struct OrtApiBase {
  void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};
inline constexpr uint32_t kOrtApiVersion = 1;

inline constexpr int kOrtLogError = 3;
inline constexpr int kOrtOptimizeAll = 99;
inline constexpr int kOrtArenaAllocator = 1, kOrtMemDefault = 0;
// Element types of tensors.
inline constexpr int kOrtF32 = 1, kOrtU8 = 2, kOrtS8 = 3, kOrtS32 = 6, kOrtS64 = 7;

// LATHE_ORT(name, position, parameters): all return a status, null where all went well.
#define LATHE_ORT_FUNCTIONS(X)                                                                                          \
  X(create_env, 3, (int severity, const char* name, OrtHandle* env))                                                    \
  X(create_session, 7, (OrtHandle env, const char* path, OrtHandle options, OrtHandle* session))                        \
  X(run, 9,                                                                                                             \
    (OrtHandle session, OrtHandle options, const char* const* in_names, const OrtHandle* in, size_t n_in,               \
     const char* const* out_names, size_t n_out, OrtHandle* out))                                                       \
  X(create_options, 10, (OrtHandle * options))                                                                          \
  X(set_optimization, 23, (OrtHandle options, int level))                                                               \
  X(set_intra_threads, 24, (OrtHandle options, int threads))                                                            \
  X(set_inter_threads, 25, (OrtHandle options, int threads))                                                            \
  X(input_count, 30, (OrtHandle session, size_t * count))                                                               \
  X(output_count, 31, (OrtHandle session, size_t * count))                                                              \
  X(input_type, 33, (OrtHandle session, size_t index, OrtHandle * type))                                                \
  X(output_type, 34, (OrtHandle session, size_t index, OrtHandle * type))                                               \
  X(input_name, 36, (OrtHandle session, size_t index, OrtHandle allocator, char** name))                                \
  X(output_name, 37, (OrtHandle session, size_t index, OrtHandle allocator, char** name))                               \
  X(create_tensor, 49,                                                                                                  \
    (OrtHandle memory, void* data, size_t bytes, const int64_t* dims, size_t rank, int element_type, OrtHandle* value)) \
  X(tensor_info, 55, (OrtHandle type, OrtHandle * info))                                                                \
  X(element_type, 60, (OrtHandle info, int* type))                                                                      \
  X(rank, 61, (OrtHandle info, size_t * rank))                                                                          \
  X(dims, 62, (OrtHandle info, int64_t * dims, size_t rank))                                                            \
  X(cpu_memory, 69, (int allocator, int kind, OrtHandle* memory))                                                       \
  X(default_allocator, 78, (OrtHandle * allocator))

inline constexpr size_t kOrtGetErrorMessage = 2;  // const char* (OrtHandle status)
// void (OrtHandle):
inline constexpr size_t kOrtReleaseSession = 95, kOrtReleaseValue = 96, kOrtReleaseType = 98, kOrtReleaseOptions = 100;

}  // namespace lathe::peers
