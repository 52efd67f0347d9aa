// Runs one operator as a program of one step, on every ISA level and storage that this machine has, alone and cut into tasks.
//
//   OpCase c{Op::kAdd, {f32({2, 3}, a), f32({3}, b)}, like(DType::kF32, {2, 3})};
//   for (const OpResult& r : run_everywhere(c, BinaryAttrs{})) CHECK(r.as<float>() == expected);
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "runtime/exec/exec.h"
#include "tests/kernels/under_test.h"
#include "tests/runtime/core_run.h"
#include "tests/runtime/guarded.h"

namespace lathe::test {

struct TestTensor {
  DType dtype = DType::kF32;
  std::vector<int> dims;
  std::vector<uint8_t> bytes;
  std::optional<QuantParams> quant;
  bool constant = false;

  size_t elems() const {
    size_t n = 1;
    for (const int d : dims) n *= static_cast<size_t>(d);
    return n;
  }
  TestTensor as_constant() const {
    TestTensor t = *this;
    t.constant = true;
    return t;
  }
  Shape shape() const {
    Shape s;
    s.rank = static_cast<uint32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), s.dims);
    return s;
  }
  template <class T> const T* data() const { return reinterpret_cast<const T*>(bytes.data()); }
};

template <class T>
TestTensor tensor_of(DType t, std::vector<int> dims, const std::vector<T>& values, std::optional<QuantParams> q = {}) {
  TestTensor r{t, std::move(dims), std::vector<uint8_t>(values.size() * sizeof(T)), q, false};
  if (!values.empty()) std::memcpy(r.bytes.data(), values.data(), r.bytes.size());
  return r;
}
inline TestTensor f32(std::vector<int> dims, const std::vector<float>& v) { return tensor_of(DType::kF32, std::move(dims), v); }
inline TestTensor s64(std::vector<int> dims, const std::vector<int64_t>& v) { return tensor_of(DType::kS64, std::move(dims), v); }
inline TestTensor s32(std::vector<int> dims, const std::vector<int32_t>& v) { return tensor_of(DType::kS32, std::move(dims), v); }
inline TestTensor q8(std::vector<int> dims, const std::vector<int8_t>& v, QuantParams q) {
  return tensor_of(DType::kS8, std::move(dims), v, q);
}
inline TestTensor like(DType t, std::vector<int> dims, std::optional<QuantParams> q = {}) {
  return {t, std::move(dims), {}, q, false};
}

inline size_t product(const std::vector<int>& dims) {
  size_t n = 1;
  for (const int d : dims) n *= static_cast<size_t>(d);
  return n;
}
inline TestTensor random_f32(std::vector<int> dims, uint32_t seed, float lo = -2, float hi = 2) {
  std::mt19937 rng(seed);
  std::vector<float> v(product(dims));
  kernels::fill_floats(rng, v.data(), v.size(), lo, hi);
  return f32(std::move(dims), v);
}
inline TestTensor random_q8(std::vector<int> dims, uint32_t seed, QuantParams q) {
  std::mt19937 rng(seed);
  std::vector<int8_t> v(product(dims));
  kernels::fill_ints(rng, v.data(), v.size(), q.qmin, q.qmax);
  return q8(std::move(dims), v, q);
}

struct OpCase {
  Op op;
  std::vector<TestTensor> inputs;
  TestTensor output;  // bytes unused
  std::vector<TestTensor> more_outputs = {};
};

struct OpResult {
  std::string config;
  std::vector<uint8_t> bytes;  // of all outputs, one behind the other
  std::vector<std::vector<uint8_t>> parts = {};  // of each output
  template <class T> static std::vector<T> as(const std::vector<uint8_t>& b) {
    std::vector<T> v(b.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), b.data(), b.size());
    return v;
  }
  template <class T> std::vector<T> as() const { return as<T>(bytes); }
};

// A program of one step. Inputs that are not constant are ports in order.
template <class A> BuiltProgram build_op(const OpCase& c, const A& attrs) {
  ProgramBuilder b;
  std::vector<uint32_t> in;
  const auto dims = [](const TestTensor& t) { return std::vector<TestDim>(t.dims.begin(), t.dims.end()); };
  for (const TestTensor& t : c.inputs) {
    in.push_back(t.constant ? b.constant_bytes(t.dtype, dims(t), t.bytes.data(), t.bytes.size(), Layout::kPlain, t.quant)
                            : b.input(t.dtype, dims(t), t.quant));
  }
  std::vector<uint32_t> out = {b.output(c.output.dtype, dims(c.output), c.output.quant)};
  for (const TestTensor& t : c.more_outputs) out.push_back(b.output(t.dtype, dims(t), t.quant));
  b.step(c.op, attrs, in, out);
  return b.build();
}

// Tasks last first, so that a result that depends on their order shows.
inline void run_backwards(void*, uint32_t n, void (*fn)(void*, uint32_t, uint32_t), void* arg) {
  while (n-- > 0) fn(arg, n, 0);
}

inline std::vector<BindOptions> all_options() {
  std::vector<BindOptions> all;
  for (const kernels::IsaLevel& level : kernels::kIsaLevels) {
    if (!kernels::covers(kernels::runnable_isa(), level.set)) continue;
    for (const kernels::Storage storage : {kernels::Storage::kS8, kernels::Storage::kU8}) {
      for (const uint32_t threads : {1u, 3u}) {
        BindOptions o;
        o.isa = level.set;
        o.storage = storage;
        o.threads = threads;
        o.table = full_exec_table();
        o.index = exec_index;
        all.push_back(o);
      }
    }
  }
  return all;
}

inline std::string describe(const BindOptions& o) {
  std::string name = "isa " + std::to_string(o.isa);
  name += o.storage == kernels::Storage::kU8 ? ", u8" : ", s8";
  return name + ", threads " + std::to_string(o.threads);
}

template <class A> Status try_bind(const OpCase& c, const A& attrs, const BindOptions& o) {
  const BuiltProgram built = build_op(c, attrs);
  Program program;
  if (const Status s = built.open(&program); !s.ok()) return s;
  std::vector<Shape> shapes;
  for (const TestTensor& t : c.inputs) {
    if (!t.constant) shapes.push_back(t.shape());
  }
  CoreRun run;
  return run.bind(program, shapes, o);
}

template <class A> std::vector<OpResult> run_everywhere(const OpCase& c, const A& attrs) {
  const BuiltProgram built = build_op(c, attrs);
  Program program;
  REQUIRE(built.open(&program).ok());
  std::vector<Shape> shapes;
  std::vector<GuardedBytes> memory;  // a step that says that it reads exactly gets it directly
  std::vector<const void*> inputs;
  for (const TestTensor& t : c.inputs) {
    if (t.constant) continue;
    shapes.push_back(t.shape());
    memory.emplace_back(t.bytes.data(), t.bytes.size());
    inputs.push_back(memory.back().data());
  }
  std::vector<OpResult> results;
  for (const BindOptions& o : all_options()) {
    CoreRun run;
    const Status s = run.bind(program, shapes, o);
    REQUIRE_MESSAGE(s.ok(), describe(o) << ": code " << static_cast<int>(s.code) << " needed " << s.needed << " got " << s.got);
    constexpr uint8_t kUnwritten = 0x5a;
    OpResult r{describe(o), {}};
    const Parallel parallel{run_backwards, nullptr, o.threads};
    // Each output has memory of its own, aligned to its elements.
    r.parts.emplace_back(c.output.elems() * dtype_bytes(c.output.dtype), kUnwritten);
    for (const TestTensor& t : c.more_outputs) r.parts.emplace_back(t.elems() * dtype_bytes(t.dtype), kUnwritten);
    std::vector<void*> outputs;
    for (auto& part : r.parts) outputs.push_back(part.data());
    run.run(inputs, outputs, nullptr, parallel);
    for (const auto& part : r.parts) r.bytes.insert(r.bytes.end(), part.begin(), part.end());
    results.push_back(std::move(r));
  }
  return results;
}

// Every result is `expected`, bit for bit.
template <class T, class A> void check_equal(const OpCase& c, const A& attrs, const std::vector<T>& expected) {
  for (const OpResult& r : run_everywhere(c, attrs)) {
    CAPTURE(r.config);
    const std::vector<T> got = r.as<T>();
    REQUIRE(got.size() == expected.size());
    size_t i = 0;
    while (i < got.size() && got[i] == expected[i]) ++i;
    CAPTURE(i);
    if (i < got.size()) REQUIRE(+got[i] == +expected[i]);
  }
}

// Every result is within max|a - b| <= tolerance * max|b|, and equal on all storages and thread counts of one ISA.
template <class A>
void check_close(const OpCase& c, const A& attrs, const std::vector<double>& expected, double tolerance = 1e-5) {
  double largest = 1e-30;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  const std::vector<OpResult> results = run_everywhere(c, attrs);
  for (size_t k = 0; k < results.size(); ++k) {
    CAPTURE(results[k].config);
    const std::vector<float> got = results[k].as<float>();
    REQUIRE(got.size() == expected.size());
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(static_cast<double>(got[i]) - expected[i]);
      if (!(error <= worst)) worst = error;
    }
    REQUIRE(worst <= tolerance * largest);
    if (k % 4 != 0) REQUIRE(results[k].bytes == results[k - k % 4].bytes);
  }
}

// Bind refuses it with this code, everywhere.
template <class A> void check_refused(const OpCase& c, const A& attrs, Code code) {
  for (const BindOptions& o : all_options()) {
    const Status s = try_bind(c, attrs, o);
    CHECK(static_cast<int>(s.code) == static_cast<int>(code));
  }
}

// Position in an operand of `dims` for element `flat` of the result `y`, NumPy's way.
inline size_t broadcast_at(const std::vector<int>& dims, const std::vector<int>& y, size_t flat) {
  size_t at = 0, stride = 1;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t axis = y.size() - 1 - i;
    const size_t coordinate = flat % static_cast<size_t>(y[axis]);
    flat /= static_cast<size_t>(y[axis]);
    if (i >= dims.size()) continue;
    const auto d = static_cast<size_t>(dims[dims.size() - 1 - i]);
    if (d != 1) at += coordinate * stride;
    stride *= d;
  }
  return at;
}

// R(v, z) in double; exact for the float32 values that it gets.
inline int8_t expected_round(float v, const QuantParams& q) {
  if (!(v > static_cast<float>(q.qmin - q.zero_point))) return static_cast<int8_t>(q.qmin);
  if (v > static_cast<float>(q.qmax - q.zero_point)) return static_cast<int8_t>(q.qmax);
  return static_cast<int8_t>(std::nearbyint(static_cast<double>(v)) + q.zero_point);
}

}  // namespace lathe::test
