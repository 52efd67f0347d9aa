#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/host/cpu.h"
#include "runtime/host/profiler.h"
#include "runtime/host/session.h"
#include "tests/runtime/sample_cnn.h"

using namespace lathe;
using lathe::test::BuiltProgram;
using lathe::test::ProgramBuilder;
using lathe::test::SampleCnn;
using lathe::test::sample_input;
using lathe::test::sample_shape;

namespace {

std::shared_ptr<const LoadedProgram> load(BuiltProgram built) {
  auto keep = std::make_shared<BuiltProgram>(std::move(built));
  auto loaded = std::make_shared<LoadedProgram>();
  REQUIRE(keep->open(&loaded->program).ok());
  loaded->owner = keep;
  loaded->input_names = {"image"};
  loaded->output_names = {"scores"};
  return loaded;
}

std::unique_ptr<HostSession> make(const std::shared_ptr<const LoadedProgram>& loaded, kernels::IsaSet isa, uint32_t threads = 1) {
  auto session = HostSession::create(loaded, {isa, threads});
  REQUIRE(session.has_value());
  return std::move(*session);
}

std::vector<float> run(HostSession& session, const std::vector<float>& x, uint32_t batch) {
  const Shape shape = sample_shape(batch);
  const auto bound = session.bind({&shape, 1});
  REQUIRE_MESSAGE(bound.has_value(), bound.error().message);
  std::vector<float> y(batch * 10);
  const void* in = x.data();
  void* out = y.data();
  REQUIRE(session.run({&in, 1}, {&out, 1}).has_value());
  return y;
}

// Instruction sets of this machine, scalar first.
std::vector<kernels::IsaSet> levels() {
  std::vector<kernels::IsaSet> out;
  for (const auto& level : kernels::kIsaLevels)
    if (kernels::covers(*machine_isa(), level.set)) out.push_back(level.set);
  return out;
}

}  // namespace

TEST_CASE("8-bit results are equal on every instruction set, thread count and batch") {
  const auto loaded = load(SampleCnn(true).build());
  const std::vector<float> x = sample_input(5);
  const auto scalar = make(loaded, kernels::kIsaScalar);
  const std::vector<float> want = run(*scalar, x, 5);
  CHECK(*std::max_element(want.begin(), want.end()) > *std::min_element(want.begin(), want.end()));
  for (const kernels::IsaSet isa : levels())
    for (const uint32_t threads : {1u, 2u, 3u}) {
      INFO(isa_text(isa) << ", " << threads << " threads");
      const auto session = make(loaded, isa, threads);
      CHECK(run(*session, x, 5) == want);
      for (uint32_t i = 0; i < 5; ++i) {
        const std::vector<float> one(x.begin() + i * 189, x.begin() + (i + 1) * 189);
        CHECK(run(*session, one, 1) == std::vector<float>(want.begin() + i * 10, want.begin() + (i + 1) * 10));
      }
    }
}

TEST_CASE("float results of one instruction set are equal for every thread count and batch") {
  const auto loaded = load(SampleCnn(false).build());
  const std::vector<float> x = sample_input(5);
  for (const kernels::IsaSet isa : levels()) {
    const auto one_thread = make(loaded, isa);
    const std::vector<float> want = run(*one_thread, x, 5);
    const auto session = make(loaded, isa, 3);
    CHECK(run(*session, x, 5) == want);
    const std::vector<float> last(x.begin() + 4 * 189, x.end());
    CHECK(run(*session, last, 1) == std::vector<float>(want.begin() + 40, want.end()));
  }
}

TEST_CASE("a session goes from shape to shape and keeps at most 32 plans") {
  const auto loaded = load(SampleCnn(true).build());
  const auto session = make(loaded, *machine_isa());
  const std::vector<float> x = sample_input(40);
  const std::vector<float> want = run(*session, x, 40);
  for (const uint32_t batch : {1u, 40u, 2u, 1u}) {
    const std::vector<float> y = run(*session, x, batch);
    CHECK(std::equal(y.begin(), y.end(), want.begin()));
    CHECK(session->output_shape(0) == Shape{{static_cast<int32_t>(batch), 10}, 2});
  }
  // More shapes than the cache holds, and back to the first.
  for (uint32_t batch = 1; batch <= 40; ++batch) run(*session, x, batch);
  const std::vector<float> y = run(*session, x, 1);
  CHECK(std::equal(y.begin(), y.end(), want.begin()));
}

TEST_CASE("wrong shapes are named with both numbers and leave the session usable") {
  const auto loaded = load(SampleCnn(true).build());
  const auto session = make(loaded, *machine_isa());
  const std::vector<float> x = sample_input(1), want = run(*session, x, 1);
  const Shape channels{{1, 9, 7, 4}, 4}, rank{{9, 7, 3}, 3}, negative{{-1, 9, 7, 3}, 4};
  CHECK(session->bind({&channels, 1}).error().message == "input 'image': axis 3 must be 3, got 4");
  CHECK(session->bind({&rank, 1}).error().message == "input 'image' needs 4 dims, got 3");
  CHECK(session->bind({&negative, 1}).error().message == "input 'image': axis 0 is negative: -1");
  CHECK(session->bind({}).error().message == "model has 1 inputs, got shapes for 0");
  CHECK(run(*session, x, 1) == want);
  const void* in = nullptr;
  void* out = nullptr;
  CHECK(session->run({&in, 1}, {&out, 1}).error().message == "input 'image' is null");
  CHECK(!session->run({}, {}).has_value());
}

TEST_CASE("running before binding and too many threads are errors") {
  const auto loaded = load(SampleCnn(true).build());
  const auto session = make(loaded, *machine_isa());
  const void* in = nullptr;
  void* out = nullptr;
  CHECK(!session->run({&in, 1}, {&out, 1}).has_value());
  CHECK(HostSession::create(loaded, {*machine_isa(), 100000}).error().message == "threads must be at most 256, got 100000");
}

TEST_CASE("a plan that an operator refuses names its step") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kF32, {4}), y = b.output(DType::kF32, {5});
  b.step(Op::kTanh, NoAttrs{}, {x}, {y});
  auto built = load(b.build());
  auto named = std::make_shared<LoadedProgram>(*built);
  named->step_names = {"act"};
  const auto session = make(named, *machine_isa());
  const Shape shape{{4}, 1};
  const auto bound = session->bind({&shape, 1});
  REQUIRE(!bound.has_value());
  CHECK_MESSAGE(bound.error().message.rfind("step 0 'act' (Tanh): ", 0) == 0, bound.error().message);
}

TEST_CASE("variables live as long as the session and reset brings them back") {
  ProgramBuilder b;
  const float initial[4] = {1, 2, 3, 4};
  const auto n = b.symbol();
  const uint32_t x = b.input(DType::kF32, {n, 4}), v = b.variable(DType::kF32, {4}, initial, sizeof initial);
  const uint32_t t = b.temp(DType::kF32, {4}), y = b.output(DType::kF32, {n, 4});
  b.step(Op::kAdd, BinaryAttrs{}, {x, v}, {y});
  b.step(Op::kAdd, BinaryAttrs{}, {v, v}, {t});
  b.step(Op::kAssign, NoAttrs{}, {v, t}, {});
  const auto session = make(load(b.build()), *machine_isa());
  const auto once = [&](int32_t batch) {
    const Shape shape{{batch, 4}, 2};
    REQUIRE(session->bind({&shape, 1}).has_value());
    std::vector<float> in(static_cast<size_t>(batch) * 4, 0.0f), out(in.size());
    const void* p = in.data();
    void* q = out.data();
    REQUIRE(session->run({&p, 1}, {&q, 1}).has_value());
    return out[3];
  };
  CHECK(session->variable_bytes() == 0);
  CHECK(once(1) == 4);
  CHECK(session->variable_bytes() >= 16);
  CHECK(once(2) == 8);  // another shape, the same state
  CHECK(once(1) == 16);
  session->reset();
  CHECK(once(1) == 4);
  std::vector<float> values(4);
  REQUIRE(session->variable_size(0) == 16);
  session->read_variable(0, std::as_writable_bytes(std::span(values)));
  CHECK(values == std::vector<float>{2, 4, 6, 8});
  values[3] = -5;
  session->write_variable(0, std::as_bytes(std::span(values)));
  CHECK(once(1) == -5);
}

TEST_CASE("an 8-bit variable is read and written as s8, whatever the plan stores") {
  for (const kernels::IsaSet isa : levels()) {
    ProgramBuilder b;
    const QuantParams grid{0.5f, 3, -128, 127};
    const int8_t initial[4] = {-128, 0, 3, 127};
    const uint32_t v = b.variable(DType::kS8, {4}, initial, sizeof initial, grid), y = b.output(DType::kS8, {4}, grid);
    b.step(Op::kReshape, NoAttrs{}, {v}, {y});
    const auto session = make(load(b.build()), isa);
    REQUIRE(session->bind({}).has_value());
    std::vector<int8_t> values(4), out(4);
    session->read_variable(0, std::as_writable_bytes(std::span(values)));
    CHECK(values == std::vector<int8_t>{-128, 0, 3, 127});
    values = {1, -2, 127, -128};
    session->write_variable(0, std::as_bytes(std::span(values)));
    void* q = out.data();
    REQUIRE(session->run({}, {&q, 1}).has_value());
    CHECK(out == values);
  }
}

TEST_CASE("variables of a program of several segments are kept, and start again when their size changes") {
  ProgramBuilder b;
  const auto n = b.symbol();
  const uint32_t x = b.input(DType::kF32, {n, 4}), v = b.variable(DType::kF32, {n, 4}, nullptr, 0);
  const uint32_t sum = b.temp(DType::kF32, {n, 4}), y = b.output(DType::kF32, {n, 4});
  b.step(Op::kAdd, BinaryAttrs{}, {x, v}, {sum});
  b.end_segment();
  b.step(Op::kAdd, BinaryAttrs{}, {sum, sum}, {y});
  b.step(Op::kAssign, NoAttrs{}, {v, sum}, {});
  const auto session = make(load(b.build()), *machine_isa());
  const auto once = [&](int32_t batch) {
    const Shape shape{{batch, 4}, 2};
    REQUIRE(session->bind({&shape, 1}).has_value());
    const std::vector<float> in(static_cast<size_t>(batch) * 4, 1.0f);
    std::vector<float> out(in.size());
    const void* p = in.data();
    void* q = out.data();
    REQUIRE(session->run({&p, 1}, {&q, 1}).has_value());
    CHECK(out == std::vector<float>(in.size(), out[0]));
    return out[0];
  };
  CHECK(once(2) == 2);
  CHECK(once(2) == 4);
  CHECK(session->variable_bytes() >= 32);
  CHECK(once(500) == 2);
  CHECK(once(500) == 4);
  CHECK(session->variable_bytes() >= 8000);
  session->reset();
  CHECK(once(500) == 2);
}

TEST_CASE("an input that may be read past its end is used where it lies") {
  const auto loaded = load(SampleCnn(false).build());
  std::vector<float> x = sample_input(1);
  std::vector<std::vector<float>> results;
  for (const bool padded : {false, true}) {
    SessionOptions options{*machine_isa()};
    options.padded_inputs = padded;
    auto session = HostSession::create(loaded, options);
    REQUIRE(session.has_value());
    if (padded) x.resize(x.size() + 16);
    results.push_back(run(**session, x, 1));
    if (padded) CHECK((*session)->plan().ports[0].mode == PortMode::kDirect);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("an empty batch is refused with a sentence") {
  const auto loaded = load(SampleCnn(true).build());
  const auto session = make(loaded, *machine_isa());
  const Shape none = sample_shape(0);
  const auto bound = session->bind({&none, 1});
  REQUIRE_FALSE(bound.has_value());
  CHECK(bound.error().message == "input 'image': axis 0 must be at least 1, got 0");
}

TEST_CASE("the profiler accounts for every step of every run") {
  const auto loaded = load(SampleCnn(true).build());
  const auto session = make(loaded, *machine_isa());
  const std::vector<float> x = sample_input(2);
  run(*session, x, 2);
  Profiler profiler(*session, *loaded, 1000);
  session->set_hook(profiler.hook());
  for (int i = 0; i < 3; ++i) run(*session, x, 2);
  session->set_hook({});
  run(*session, x, 2);
  CHECK(profiler.runs() == 3);
  for (const ProfileBy by : {ProfileBy::kNode, ProfileBy::kOp, ProfileBy::kKernel}) {
    const auto rows = profiler.rows(by);
    uint64_t calls = 0;
    double ns = 0, mean = 0, last = 1e300;
    for (const ProfileRow& r : rows) {
      calls += r.calls;
      ns += r.p50_ns;
      mean += r.mean_ns;
      CHECK(r.p50_ns <= last);
      last = r.p50_ns;
    }
    CHECK(calls == 3 * loaded->program.step_count());
    CHECK(ns == doctest::Approx(profiler.p50_ns()));
    CHECK(mean == doctest::Approx(profiler.mean_ns()));
    CHECK(rows.back().cumulative_share == doctest::Approx(1.0));
  }
  const auto ops = profiler.rows(ProfileBy::kOp);
  const auto conv = std::find_if(ops.begin(), ops.end(), [](const ProfileRow& r) { return r.name == "Conv2d"; });
  REQUIRE(conv != ops.end());
  CHECK(conv->calls == 9);
  CHECK(conv->param_bytes > 0);

  std::ostringstream trace;
  profiler.write_trace(trace);
  const auto json = nlohmann::json::parse(trace.str());
  CHECK(json["traceEvents"].size() == 3 * loaded->program.step_count());
  CHECK(json["traceEvents"][0]["ph"] == "X");
}

TEST_CASE("instruction sets are parsed, capped and refused by name") {
  CHECK(*parse_isa("avx2") == kernels::kIsaAvx2);
  CHECK(parse_isa("mmx").error().message ==
        "unknown instruction set 'mmx'; known are scalar, avx2, avx512, avx512vnni, neon, dotprod");
  CHECK(*capped_isa("scalar") == kernels::kIsaScalar);
  CHECK(*capped_isa("") == detected_isa());
  CHECK(std::string(isa_text(kernels::kIsaScalar)) == "scalar");
#if defined(__x86_64__)
  CHECK(!capped_isa("neon").has_value());
  CHECK(kernels::covers(detected_isa(), *capped_isa("avx512")));
#endif
  CHECK(usable_cpus() >= 1);
}
