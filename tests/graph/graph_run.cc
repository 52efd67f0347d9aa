#include "graph/graph_run.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "graph/lower/load.h"
#include "graph/lower/lower.h"

namespace lathe::test {
namespace {

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

size_t elems_of(const std::vector<int64_t>& dims) {
  size_t n = 1;
  for (int64_t d : dims) n *= static_cast<size_t>(d);
  return n;
}

template <class T>
std::string hex(const std::vector<T>& v) {
  std::string s = "x\"";
  for (std::byte b : std::as_bytes(std::span(v))) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(b));
    s += digits;
  }
  return s + "\"";
}

size_t shape_bytes(const Shape& shape, DType dtype) { return size_t{shape.elems()} * dtype_bytes(dtype); }

std::vector<std::byte> random_input(const ProgramTensor& t, const Shape& shape, std::mt19937& random) {
  std::vector<std::byte> bytes(shape_bytes(shape, t.dtype));
  if (t.dtype == DType::kF32) {
    std::uniform_real_distribution<float> value(-2.0f, 2.0f);
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const float v = value(random);
      std::memcpy(bytes.data() + i, &v, 4);
    }
  } else {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  }
  return bytes;
}

Shape input_shape(const Program& p, const ProgramTensor& t) {
  Shape shape;
  shape.rank = t.rank;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const ProgramDim& d = p.dim(t.dims[i]);
    REQUIRE((d.op == DimOp::kConst || d.op == DimOp::kSymbol));
    shape.dims[i] = d.op == DimOp::kConst ? d.a : 2;
  }
  return shape;
}

}  // namespace

std::string random_f32(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, float lo, float hi) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(lo, hi);
  std::vector<float> v(elems_of(dims));
  for (float& x : v) x = value(random);
  return "constant %" + name + " : f32" + dims_text(dims) + " = " + hex(v) + "\n";
}

std::string random_s8(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, const std::string& quant) {
  std::mt19937 random(seed);
  std::vector<int8_t> v(elems_of(dims));
  for (int8_t& x : v) x = static_cast<int8_t>(static_cast<int32_t>(random() % 255) - 127);
  return "constant %" + name + " : s8" + dims_text(dims) + " " + quant + " = " + hex(v) + "\n";
}

std::string block_sparse_s8(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, const std::string& quant) {
  std::mt19937 random(seed);
  std::vector<int8_t> v(elems_of(dims));
  const size_t per_channel = v.size() / static_cast<size_t>(dims[0]);
  for (size_t i = 0; i < v.size(); ++i) {
    const size_t block = i / per_channel / 16 + i % per_channel / 4;
    v[i] = block % 4 == seed % 4 ? static_cast<int8_t>(1 + random() % 127) : int8_t{0};
  }
  return "constant %" + name + " : s8" + dims_text(dims) + " " + quant + " = " + hex(v) + "\n";
}

Graph parsed(const std::string& body) {
  auto graph = parse_graph("graph {\n" + body + "\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

std::string nodes(const Graph& graph) {
  std::istringstream text(print(graph));
  std::string out;
  for (std::string line; std::getline(text, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line.rfind("%", 0) != 0 && line.rfind("output", 0) != 0) continue;
    if (const size_t type = line.find(" : "); type != std::string::npos) line.erase(type, line.find(" = ", type) - type);
    if (const size_t contents = line.find("  // "); contents != std::string::npos) line.erase(contents);
    out += line + "\n";
  }
  return out;
}

std::vector<std::vector<std::byte>> run_program(std::shared_ptr<const LoadedProgram> program, const RunOptions& options) {
  const Program& p = program->program;
  std::mt19937 random(options.seed);
  std::vector<Shape> shapes(p.header().input_count);
  std::vector<std::vector<std::byte>> inputs(shapes.size()), outputs(p.header().output_count);
  for (uint32_t i = 0; i < p.tensor_count(); ++i) {
    const ProgramTensor& t = p.tensor(i);
    if (t.kind != TensorKind::kInput) continue;
    shapes[t.port] = input_shape(p, t);
    inputs[t.port] = random_input(t, shapes[t.port], random);
  }
  auto session = HostSession::create(program, {options.isa, 1});
  REQUIRE_MESSAGE(session, session.error().message);
  const auto bound = (*session)->bind(shapes);
  REQUIRE_MESSAGE(bound, bound.error().message);
  for (uint32_t i = 0; i < p.tensor_count(); ++i) {
    if (p.tensor(i).kind == TensorKind::kOutput)
      outputs[p.tensor(i).port].resize(shape_bytes((*session)->output_shape(p.tensor(i).port), p.tensor(i).dtype));
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& v : inputs) in.push_back(v.data());
  for (auto& v : outputs) out.push_back(v.data());
  const auto ran = (*session)->run(in, out);
  REQUIRE_MESSAGE(ran, ran.error().message);
  return outputs;
}

std::vector<std::vector<std::byte>> run_graph(const Graph& graph, const RunOptions& options) {
  auto image = lower(graph, Target::kHost);
  REQUIRE_MESSAGE(image, image.error().message);
  auto program = load_program(std::move(*image));
  REQUIRE_MESSAGE(program, program.error().message);
  return run_program(*program, options);
}

double relative_difference(const std::vector<std::vector<std::byte>>& a, const std::vector<std::vector<std::byte>>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    double difference = 0, largest = 0;
    for (size_t at = 0; at < a[i].size(); at += 4) {
      float x, y;
      std::memcpy(&x, a[i].data() + at, 4);
      std::memcpy(&y, b[i].data() + at, 4);
      difference = std::max(difference, std::isfinite(x) && std::isfinite(y) ? std::abs(double{x} - y) : 1e30);
      largest = std::max(largest, std::abs(double{y}));
    }
    worst = std::max(worst, difference / std::max(largest, 1e-30));
  }
  return worst;
}

void check_pass(Result<void> (*pass)(Rewriter&), const std::string& body, const std::string& expected) {
  Graph graph = parsed(body);
  const auto before = run_graph(graph);
  Rewriter rewriter(graph);
  const auto done = pass(rewriter);
  REQUIRE_MESSAGE(done, done.error().message);
  const auto ok = verify(graph);
  REQUIRE_MESSAGE(ok, ok.error().message);
  CHECK(nodes(graph) == expected);
  CHECK(relative_difference(run_graph(graph), before) < 1e-5);
}

void check_untouched(Result<void> (*pass)(Rewriter&), const std::string& body) {
  Graph graph = parsed(body);
  const std::string before = nodes(graph);
  Rewriter rewriter(graph);
  const auto done = pass(rewriter);
  REQUIRE_MESSAGE(done, done.error().message);
  CHECK(nodes(graph) == before);
}

}  // namespace lathe::test
