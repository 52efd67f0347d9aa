#include <doctest/doctest.h>

#include <map>
#include <random>

#include "tests/runtime/core_run.h"
#include "tests/runtime/word_ops.h"

using namespace lathe;
using lathe::test::BuiltProgram;
using lathe::test::CoreRun;
using lathe::test::ProgramBuilder;
using lathe::test::word_options;
using Words = std::vector<uint32_t>;

namespace {

// A random program over vectors of words, and its value computed step by step with memory of its own for every tensor.
struct RandomProgram {
  ProgramBuilder builder;
  std::vector<uint32_t> inputs, outputs;
  std::map<uint32_t, Words> values;
};

Words add(const Words& a, const Words& b) {
  Words y(a.size());
  for (size_t i = 0; i < a.size(); ++i) y[i] = a[i] * 31 + b[i % b.size()];
  return y;
}
Words softmax(const Words& x, size_t n) {
  Words y(n);
  for (size_t i = 0; i < n; ++i) y[i] = x[(i % x.size()) * 7 % x.size()] + 1;
  return y;
}

RandomProgram random_program(std::mt19937& rng) {
  RandomProgram r;
  const auto words = [&](size_t n) {
    Words v(n);
    for (uint32_t& w : v) w = rng();
    return v;
  };
  const auto size = [&] { return static_cast<int>(1 + rng() % 200); };
  std::vector<uint32_t> made;
  for (uint32_t i = 0, n = 1 + rng() % 3; i < n; ++i) {
    const int len = size();
    const uint32_t t = r.builder.input(DType::kS32, {len});
    if (rng() % 3 == 0) r.builder.tensor(t).flags |= kTensorForeignRead;
    r.inputs.push_back(t);
    r.values[t] = words(static_cast<size_t>(len));
    made.push_back(t);
  }
  {
    const int len = size();
    const Words v = words(static_cast<size_t>(len));
    made.push_back(r.builder.constant(DType::kS32, {len}, v));
    r.values[made.back()] = v;
  }
  for (uint32_t i = 0, steps = 1 + rng() % 20; i < steps; ++i) {
    const uint32_t a = made[rng() % 3 == 0 ? rng() % made.size() : made.size() - 1], b = made[rng() % made.size()];
    const uint32_t kind = rng() % 4;
    const int len = kind == 2 ? size() : static_cast<int>(r.values[a].size());
    const bool output = rng() % 4 == 0 || i + 1 == steps;
    const uint32_t y = output ? r.builder.output(DType::kS32, {len}) : r.builder.temp(DType::kS32, {len});
    if (output) r.outputs.push_back(y);
    if (kind == 3) {
      r.builder.step(Op::kReshape, NoAttrs{}, {a}, {y});
      r.values[y] = r.values[a];
    } else if (kind == 2) {
      r.builder.step(Op::kSoftmax, AxisAttrs{}, {a}, {y});
      r.values[y] = softmax(r.values[a], static_cast<size_t>(len));
    } else {
      r.builder.step(Op::kAdd, BinaryAttrs{}, {a, b}, {y});
      r.values[y] = add(r.values[a], r.values[b]);
    }
    made.push_back(y);
  }
  return r;
}

Shape shape_of(const Words& w) { return Shape{{static_cast<int32_t>(w.size())}, 1}; }

}  // namespace

TEST_CASE("random programs compute in shared memory what they compute with memory of their own") {
  const uint32_t seed = 4242;
  INFO("seed " << seed);
  std::mt19937 rng(seed);
  for (int round = 0; round < 400; ++round) {
    RandomProgram r = random_program(rng);
    const BuiltProgram built = r.builder.build();
    Program p;
    REQUIRE(built.open(&p).ok());
    std::vector<Shape> shapes;
    std::vector<const void*> in;
    for (uint32_t t : r.inputs) {
      shapes.push_back(shape_of(r.values[t]));
      in.push_back(r.values[t].data());
    }
    BindOptions options = word_options();
    options.external_ports = round % 3 != 0;
    CoreRun run;
    REQUIRE(run.bind(p, shapes, options).ok());
    const BoundPlan& plan = run.binding.plan;
    CHECK((plan.arena_bytes == 0 || plan.arena_bytes >= plan.arena_lower_bound + options.tail));
    std::vector<Words> out;
    for (uint32_t t : r.outputs) out.push_back(Words(r.values[t].size()));
    std::vector<void*> out_data;
    for (Words& w : out) out_data.push_back(w.data());
    const auto inputs_before = r.values;
    for (int again = 0; again < 2; ++again) {
      run.run(in, out_data);
      for (size_t i = 0; i < out.size(); ++i)
        CHECK_MESSAGE(out[i] == r.values[r.outputs[i]], "round " << round << " output " << i);
    }
    CHECK(inputs_before == r.values);
  }
}

TEST_CASE("an elementwise chain runs in place and its arena is one buffer") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kS32, {256}), c = b.constant(DType::kS32, {1}, Words{5});
  uint32_t t = x;
  for (int i = 0; i < 5; ++i) {
    const uint32_t y = b.temp(DType::kS32, {256});
    b.step(Op::kAdd, BinaryAttrs{}, {t, c}, {y});
    t = y;
  }
  const uint32_t y = b.output(DType::kS32, {256});
  b.step(Op::kSoftmax, AxisAttrs{}, {t}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{256}, 1}}, word_options()).ok());
  // The buffer and the last step's scratch; the output is the caller's.
  CHECK(run.binding.plan.arena_lower_bound == 2048);
  CHECK(run.binding.plan.arena_bytes == 2048 + 64);
  CHECK(run.binding.plan.ports[0].mode == PortMode::kCopy);
  CHECK(run.binding.plan.ports[1].mode == PortMode::kDirect);
}

TEST_CASE("memory that is read later is not shared") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kS32, {64}), t = b.temp(DType::kS32, {64}), u = b.temp(DType::kS32, {64}),
                 y = b.output(DType::kS32, {64});
  b.step(Op::kSoftmax, AxisAttrs{}, {x}, {t});
  b.step(Op::kAdd, BinaryAttrs{}, {t, t}, {u});
  b.step(Op::kAdd, BinaryAttrs{}, {u, t}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{64}, 1}}, word_options()).ok());
  const BoundTensor *a = &run.binding.plan.tensors[t], *c = &run.binding.plan.tensors[u];
  CHECK(a->region == static_cast<uint32_t>(Region::kArena));
  CHECK(a->offset != c->offset);
}

TEST_CASE("an input that grants reads past its end is used where it lies") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kS32, {64}), y = b.output(DType::kS32, {64});
  b.tensor(x).flags |= kTensorForeignRead;
  b.step(Op::kSoftmax, AxisAttrs{}, {x}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{64}, 1}}, word_options()).ok());
  CHECK(run.binding.plan.ports[0].mode == PortMode::kDirect);
  CHECK(run.binding.plan.arena_lower_bound == 256);  // scratch alone
}

TEST_CASE("quantized values cross the border with their top bit turned under u8 storage") {
  const QuantParams q{0.1f, 0, -128, 127};
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kS8, {4}, q), y = b.output(DType::kS8, {4}, q), raw = b.input(DType::kS8, {4}),
                 z = b.output(DType::kS8, {4});
  b.step(Op::kReshape, NoAttrs{}, {x}, {y});
  b.step(Op::kReshape, NoAttrs{}, {raw}, {z});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  BindOptions options = word_options();
  options.storage = kernels::Storage::kU8;
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{4}, 1}, Shape{{4}, 1}}, options).ok());
  // Room for four words: the table's copy moves words, where these values are bytes.
  alignas(4) const int8_t in[16] = {-128, -1, 0, 127};
  alignas(4) int8_t out[16] = {}, out2[16] = {};
  // Reshape is an alias here, so that the words of the table's copy do not matter.
  REQUIRE(run.binding.plan.tensors[x].offset == run.binding.plan.tensors[y].offset);
  run.run({in, in}, {out, out2});
  CHECK(std::memcmp(in, out, 4) == 0);
  const uint8_t* inside = run.memory.at(run.binding.plan.tensors[x]);
  CHECK(inside[0] == 0);
  CHECK(inside[3] == 255);
  CHECK(run.binding.plan.ports[0].mode == PortMode::kFlip);
  CHECK(run.binding.plan.ports[1].mode == PortMode::kCopy);
}

TEST_CASE("variables keep their values between runs and go back on reset") {
  ProgramBuilder b;
  const uint32_t initial[4] = {1, 2, 3, 4};
  const uint32_t x = b.input(DType::kS32, {4}), v = b.variable(DType::kS32, {4}, initial, sizeof initial),
                 zero = b.variable(DType::kS32, {2}, nullptr, 0);
  const uint32_t y = b.output(DType::kS32, {4}), z = b.output(DType::kS32, {2});
  b.step(Op::kAssign, NoAttrs{}, {v, x}, {});
  b.step(Op::kReshape, NoAttrs{}, {v}, {y});
  b.step(Op::kReshape, NoAttrs{}, {zero}, {z});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{4}, 1}}, word_options()).ok());
  const Words in = {10, 10, 10, 10};
  Words out(4), out2(2, 7);
  run.run({in.data()}, {out.data(), out2.data()});
  CHECK(out == Words{11, 12, 13, 14});
  CHECK(out2 == Words{0, 0});
  run.run({in.data()}, {out.data(), out2.data()});
  CHECK(out == Words{21, 22, 23, 24});
  reset_variables(run.binding.plan, run.memory);
  run.run({in.data()}, {out.data(), out2.data()});
  CHECK(out == Words{11, 12, 13, 14});
}

TEST_CASE("an op without an entry in the table is named by its step") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kF32, {4}), t = b.temp(DType::kF32, {4}), y = b.output(DType::kF32, {4});
  b.step(Op::kReshape, NoAttrs{}, {x}, {t});
  b.step(Op::kTanh, NoAttrs{}, {t}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  const Status s = run.bind(p, {Shape{{4}, 1}}, word_options());
  CHECK(s.code == Code::kUnsupported);
  CHECK(s.where == 1);
}

TEST_CASE("the hook sees every step before and after it runs") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kS32, {4}), t = b.temp(DType::kS32, {4}), y = b.output(DType::kS32, {4});
  b.step(Op::kReshape, NoAttrs{}, {x}, {t});
  b.step(Op::kSoftmax, AxisAttrs{}, {t}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CoreRun run;
  REQUIRE(run.bind(p, {Shape{{4}, 1}}, word_options()).ok());
  std::vector<int> seen;
  StepHook hook;
  hook.self = &seen;
  hook.before = [](void* self, uint32_t step) { static_cast<std::vector<int>*>(self)->push_back(static_cast<int>(step) + 1); };
  hook.after = [](void* self, uint32_t step) { static_cast<std::vector<int>*>(self)->push_back(-static_cast<int>(step) - 1); };
  const Words in(4, 1);
  Words out(4);
  run.run({in.data()}, {out.data()}, &hook);
  CHECK(seen == std::vector<int>{1, -1, 2, -2});
}
