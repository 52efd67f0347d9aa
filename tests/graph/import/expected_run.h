// Results that others computed (tests/oracle/expected), and imported graphs that are run to be compared with them.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/npy.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "runtime/host/session.h"

namespace lathe::test {

// All arrays of tests/oracle/expected/<stem>.npz.
inline std::vector<NamedTensor> expected_arrays(const std::string& stem) {
  auto arrays = read_npz(std::string(LATHE_SOURCE_ROOT) + "/tests/oracle/expected/" + stem + ".npz");
  if (!arrays) FAIL(arrays.error().message);
  return std::move(*arrays);
}

inline const HostTensor& array(const std::vector<NamedTensor>& arrays, const std::string& name) {
  for (const NamedTensor& a : arrays)
    if (a.name == name) return a.tensor;
  FAIL("no array " << name);
  return arrays[0].tensor;
}

inline Shape shape_of(const HostTensor& t) {
  Shape shape;
  for (const int64_t d : t.dims) shape.dims[shape.rank++] = static_cast<int32_t>(d);
  return shape;
}

// A session of the graph, bound to these inputs' shapes.
inline std::unique_ptr<HostSession> bound_session(const Graph& graph, const std::vector<Shape>& shapes, kernels::IsaSet isa,
                                                  uint32_t threads) {
  auto program = compile_for_host(graph);
  if (!program) FAIL(program.error().message);
  auto session = HostSession::create(*program, {isa, threads});
  if (!session) FAIL(session.error().message);
  const auto bound = (*session)->bind(shapes);
  if (!bound) FAIL(bound.error().message);
  return std::move(*session);
}

// The float output of a graph whose one input is x; it has the dims of `like`.
inline std::vector<float> run_one(const Graph& graph, const HostTensor& x, const HostTensor& like, kernels::IsaSet isa) {
  const auto session = bound_session(graph, {shape_of(x)}, isa, 2);
  const Shape& shape = session->output_shape(0);
  REQUIRE(std::vector<int64_t>(shape.dims, shape.dims + shape.rank) == like.dims);
  std::vector<float> y(shape.elems());
  const void* in = x.bytes.data();
  void* out = y.data();
  const auto ok = session->run({&in, 1}, {&out, 1});
  if (!ok) FAIL(ok.error().message);
  return y;
}

}  // namespace lathe::test
