// Programs whose shapes depend on data: they are cut into segments, each bound when the one before has run.
#include <doctest/doctest.h>

#include <cstring>

#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "runtime/host/session.h"
#include "tests/graph/graph_run.h"

using namespace lathe;

namespace {

std::unique_ptr<HostSession> session_for(const Graph& graph, kernels::IsaSet isa = kernels::kIsaScalar, uint32_t threads = 1) {
  const auto program = compile_for_host(graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {isa, threads});
  REQUIRE_MESSAGE(session, session.error().message);
  return std::move(*session);
}

Shape shape(std::vector<int32_t> dims) {
  Shape s;
  s.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), s.dims);
  return s;
}

template <class T> std::vector<T> output(const HostSession& s, uint32_t i) {
  REQUIRE(s.is_open(i));
  const T* p = reinterpret_cast<const T*>(s.output_data(i));
  return {p, p + s.output_shape(i).elems()};
}

void bind(HostSession& s, const std::vector<Shape>& shapes) {
  const auto bound = s.bind(shapes);
  REQUIRE_MESSAGE(bound, bound.error().message);
}

// The positive elements of x, each twice as large, and how they sum up with what every one of them had before.
const char* const kPositive = R"(
input %x : f32[N]
input %mask : bool[N]
%kept, %count = Compress "kept" (%x, %mask)
%n = Extents (%count) {number=0}
%part = Trim (%kept, %n)
%twice = Add (%part, %part)
%sum = Add (%twice, %part)
output %twice
output %n
output %sum
)";

std::vector<float> run_positive(HostSession& session, const std::vector<float>& x) {
  std::vector<uint8_t> mask;
  for (float v : x) mask.push_back(v > 0 ? 1 : 0);
  int64_t count = -1;
  const void* in[] = {x.data(), mask.data()};
  void* out[] = {nullptr, &count, nullptr};
  const auto ran = session.run(in, out);
  REQUIRE_MESSAGE(ran, ran.error().message);
  CHECK(session.output_shape(0) == shape({static_cast<int32_t>(count)}));
  const std::vector<float> twice = output<float>(session, 0), sum = output<float>(session, 2);
  REQUIRE(sum.size() == twice.size());
  for (size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == 1.5f * twice[i]);
  return twice;
}

}  // namespace

TEST_CASE("a result takes the size that data give it, from run to run and from shape to shape") {
  const Graph graph = test::parsed(kPositive);
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(*machine_isa(), level.set)) continue;
    const auto session = session_for(graph, level.set, 2);
    bind(*session, {shape({5}), shape({5})});
    CHECK(session->output_shape(0) == shape({-1}));
    CHECK(run_positive(*session, {1, -2, 3, -4, 5}) == std::vector<float>{2, 6, 10});
    CHECK(run_positive(*session, {-1, -2, -3, -4, 7}) == std::vector<float>{14});
    CHECK(run_positive(*session, {1, 2, 3, 4, 5}) == std::vector<float>{2, 4, 6, 8, 10});
    CHECK(run_positive(*session, {1, -2, 3, -4, 5}) == std::vector<float>{2, 6, 10});
    bind(*session, {shape({2}), shape({2})});
    CHECK(run_positive(*session, {8, -1}) == std::vector<float>{16});
    CHECK(session->arena_bytes() > 0);
  }
}

TEST_CASE("nothing may be left") {
  const auto session = session_for(test::parsed(kPositive));
  bind(*session, {shape({3}), shape({3})});
  CHECK(run_positive(*session, {-1, -2, -3}).empty());
  CHECK(run_positive(*session, {-1, 2, -3}) == std::vector<float>{4});
}

TEST_CASE("dims of one segment decide those of the next, and what the first made is there in the last") {
  // As many numbers as x has elements that are not 0, counted twice over, and the places of these.
  const Graph graph = test::parsed(R"(
input %x : s64[2,3]
constant %zero : s64[] = [0]
constant %one : s64[] = [1]
constant %scalar : s64[0] = []
%places, %count = NonZero (%x)
%n = Extents (%count) {number=4}
%at = Trim (%places, %n) {axis=1}
%limit = Reshape (%n, %scalar)
%c = RangeCount "c" (%zero, %limit, %one)
%m = Extents (%c) {number=7}
%range = Range (%zero, %limit, %one, %m)
output %at
output %range
)");
  const auto session = session_for(graph);
  bind(*session, {shape({2, 3})});
  const int64_t x[6] = {0, 5, 0, -1, 0, 9};
  const void* in[] = {x};
  void* out[] = {nullptr, nullptr};
  const auto ran = session->run(in, out);
  REQUIRE_MESSAGE(ran, ran.error().message);
  CHECK(session->output_shape(0) == shape({2, 3}));
  CHECK(output<int64_t>(*session, 0) == std::vector<int64_t>{0, 1, 1, 1, 0, 2});
  CHECK(output<int64_t>(*session, 1) == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("a dim that is not there is refused with its step") {
  const Graph graph = test::parsed(R"(
input %x : f32[4]
input %n : s64[1]
%m = Extents "m" (%n) {number=0}
%y = Trim "y" (%x, %m)
output %y
)");
  const auto session = session_for(graph);
  bind(*session, {shape({4}), shape({1})});
  const float x[4] = {1, 2, 3, 4};
  const auto run = [&](int64_t n) {
    const void* in[] = {x, &n};
    void* out[] = {nullptr};
    const auto ran = session->run(in, out);
    return ran ? std::string() : ran.error().message;
  };
  CHECK(run(3).empty());
  CHECK(output<float>(*session, 0) == std::vector<float>{1, 2, 3});
  CHECK(run(-1).find("is -1, which is no dim") != std::string::npos);
  CHECK(run(5).find("'y' (Trim)") != std::string::npos);
  CHECK(run(4).empty());
  CHECK(output<float>(*session, 0) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("what is known before ends no segment") {
  const Graph graph = test::parsed(R"(
input %x : f32[N,4]
%shape = Shape (%x)
%m = Extents (%shape) {number=0}
constant %c : f32[] = [3]
%y = Expand (%c, %m)
output %y
)");
  const auto program = compile_for_host(graph);
  REQUIRE(program);
  CHECK((*program)->program.header().segment_count == 1);
}

TEST_CASE("two tensors of dims cannot have one number") {
  const Graph graph = test::parsed(R"(
input %x : f32[4]
input %n : s64[1]
%m = Extents (%n) {number=0}
%k = Extents (%n) {number=0}
%y = Trim (%x, %m)
%z = Trim (%x, %k)
output %y
output %z
)");
  const auto program = compile_for_host(graph);
  REQUIRE(!program);
  CHECK(program.error().message.find("number 0 is used twice") != std::string::npos);
}
