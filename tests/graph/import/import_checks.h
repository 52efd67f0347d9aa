// What import tests look at in a graph.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "graph/ir.h"
#include "tests/data/damage.h"

namespace lathe::test {

// Names of the ops, in order: "Transpose Conv2d Transpose".
inline std::string op_names(const Graph& g) {
  std::string s;
  for (NodeId n : g.order()) s += (s.empty() ? "" : " ") + std::string(op_name(g.node(n).op));
  return s;
}

inline std::string dims_of(const Graph& g, ValueId v) {
  std::string s = "[";
  for (Dim d : g.value(v).type.dims) s += (s.size() == 1 ? "" : ",") + g.dims().text(d);
  return s + "]";
}

// Dims of output i.
inline std::string output_dims(const Graph& g, size_t i = 0) { return dims_of(g, g.outputs()[i]); }

// The first node of this op. Requires: there is one.
inline Node find_node(const Graph& g, Op op) {
  for (NodeId n : g.order())
    if (g.node(n).op == op) return g.node(n);
  FAIL("no node " << op_name(op));
  return g.node(0);
}
template <class A> A attrs_of(const Graph& g, Op op) { return std::get<A>(find_node(g, op).attrs); }

inline std::vector<float> floats_of(const Graph& g, ValueId v) {
  const auto s = g.value(v).constant.as<float>();
  return {s.begin(), s.end()};
}
inline std::vector<int32_t> list_of(const Ints& ints) { return {ints.values, ints.values + ints.count}; }

// The graph, or a failed test that prints the error.
inline Graph must(Result<Graph> g) {
  if (!g) FAIL(g.error().message);
  return std::move(*g);
}
// The error of what must fail.
inline std::string error_of(const Result<Graph>& g) { return g ? "(imported)" : g.error().message; }

// Damaged bytes of a file end in an error or in another valid graph.
template <class Import> void check_damaged(const Bytes& bytes, const Import& import) {
  const Result<Graph> g = import(bytes);
  if (g) CHECK(verify(*g).has_value());
  else CHECK(!g.error().message.empty());
}

// A bit of each byte flipped, and many files with a few bytes of chance.
template <class Import> void check_flipped_bits(const Bytes& whole, const Import& import) {
  const auto check = [&](const Bytes& bytes) { check_damaged(bytes, import); };
  flip_each_byte(whole, check);
  replace_bytes(whole, 7, 1500, check);
}

}  // namespace lathe::test
