#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "runtime/plan/dims.h"
#include "tests/runtime/core_run.h"
#include "tests/runtime/word_ops.h"

using namespace lathe;
using lathe::test::BuiltProgram;
using lathe::test::ProgramBuilder;

namespace {

// x [N, 8] -> Add constant [8] -> Concat (with itself) [N, 16] -> Cast -> y; and a variable.
ProgramBuilder small() {
  ProgramBuilder b;
  const auto n = b.symbol();
  const QuantParams q{0.5f, 3, -128, 127};
  const uint32_t x = b.input(DType::kS8, {n, 8}, q);
  const uint32_t c = b.constant(DType::kF32, {8}, std::vector<float>(8, 1.0f));
  const uint32_t t = b.temp(DType::kS8, {n, 8}, q);
  const uint32_t u = b.temp(DType::kS8, {n, 16}, q);
  const uint32_t y = b.output(DType::kF32, {n, 16});
  const float zero[4] = {};
  const uint32_t v = b.variable(DType::kF32, {4}, zero, sizeof zero);
  b.step(Op::kAdd, BinaryAttrs{}, {x, c}, {t});
  AxisAttrs axis;
  axis.axis = 1;
  b.step(Op::kConcat, axis, {t, t}, {u}, b.expression(DimOp::kMul, n, 16));
  b.step(Op::kCast, CastAttrs{}, {u}, {y});
  b.step(Op::kAssign, NoAttrs{}, {v, c}, {});
  return b;
}

ProgramHeader& header(BuiltProgram& p) { return *reinterpret_cast<ProgramHeader*>(p.plan_data()); }
ProgramTensor& tensor(BuiltProgram& p, uint32_t i) {
  return reinterpret_cast<ProgramTensor*>(p.plan_data() + header(p).tensor_at)[i];
}
ProgramStep& step(BuiltProgram& p, uint32_t i) { return reinterpret_cast<ProgramStep*>(p.plan_data() + header(p).step_at)[i]; }
ProgramDim& dim(BuiltProgram& p, uint32_t i) { return reinterpret_cast<ProgramDim*>(p.plan_data() + header(p).dim_at)[i]; }
uint32_t& operand(BuiltProgram& p, uint32_t s, uint32_t i) {
  return reinterpret_cast<uint32_t*>(p.plan_data() + header(p).operand_at)[step(p, s).operands + i];
}

}  // namespace

TEST_CASE("a well-formed program opens and reads back as it was written") {
  const BuiltProgram built = small().build();
  Program p;
  REQUIRE(built.open(&p).ok());
  CHECK(p.step_count() == 4);
  CHECK(p.attrs<AxisAttrs>(p.step(1)).axis == 1);
  CHECK(p.input(p.step(1), 1) == 2);
  CHECK(p.output(p.step(1), 0) == 3);
  CHECK(p.input(p.step(1), 2) == kNoTensor);
  CHECK(*reinterpret_cast<const float*>(p.constant(p.tensor(1))) == 1.0f);
}

TEST_CASE("each kind of damage to a program is refused with its code") {
  struct Damage {
    const char* what;
    Code code;
    std::function<void(BuiltProgram&)> apply;
  };
  const Damage damages[] = {
      {"magic", Code::kCorrupt, [](BuiltProgram& p) { header(p).magic ^= 1; }},
      {"major", Code::kVersion, [](BuiltProgram& p) { header(p).major = 9; }},
      {"size", Code::kCorrupt, [](BuiltProgram& p) { header(p).bytes += 4; }},
      {"dim table past the end", Code::kCorrupt, [](BuiltProgram& p) { header(p).dim_count = 0x20000000; }},
      {"tensor table at 0", Code::kCorrupt, [](BuiltProgram& p) { header(p).tensor_at = 0; }},
      {"step table unaligned", Code::kCorrupt, [](BuiltProgram& p) { header(p).step_at += 2; }},
      {"step record too small", Code::kCorrupt, [](BuiltProgram& p) { header(p).step_bytes = 4; }},
      {"operand table too long", Code::kCorrupt, [](BuiltProgram& p) { header(p).operand_count = 0x40000001; }},
      {"attributes past the end", Code::kCorrupt, [](BuiltProgram& p) { header(p).attr_total = 0xfffffff0; }},
      {"more symbols than dims", Code::kCorrupt, [](BuiltProgram& p) { header(p).symbol_count = 1000; }},
      {"an input too many", Code::kCorrupt, [](BuiltProgram& p) { header(p).input_count = 2; }},
      {"no segment", Code::kCorrupt, [](BuiltProgram& p) { header(p).segment_count = 0; }},
      {"symbol out of range", Code::kCorrupt, [](BuiltProgram& p) { dim(p, 0).a = 5; }},
      {"dim that refers to itself", Code::kCorrupt,
       [](BuiltProgram& p) { dim(p, header(p).dim_count - 1).a = static_cast<int32_t>(header(p).dim_count) - 1; }},
      {"unknown dim op", Code::kVersion, [](BuiltProgram& p) { dim(p, 0).op = static_cast<DimOp>(99); }},
      {"unknown dtype", Code::kVersion, [](BuiltProgram& p) { tensor(p, 2).dtype = static_cast<DType>(0); }},
      {"unknown kind", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).kind = static_cast<TensorKind>(9); }},
      {"unknown layout", Code::kVersion, [](BuiltProgram& p) { tensor(p, 1).layout = static_cast<Layout>(99); }},
      {"packed temporary", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).layout = Layout::kGemmS8; }},
      {"unknown flag", Code::kVersion, [](BuiltProgram& p) { tensor(p, 2).flags |= 0x80; }},
      {"rank 9", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).rank = 9; }},
      {"dim index out of range", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).dims[0] = 99; }},
      {"constant with a symbolic dim", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 1).dims[0] = 0; }},
      {"constant outside of weights", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 1).offset_units = 0xffffffff; }},
      {"constant shorter than its dims", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 1).stored_bytes = 31; }},
      {"variable shorter than its dims", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 5).stored_bytes = 12; }},
      {"padded constant that is not", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 1).layout = Layout::kPadded16; }},
      {"port out of range", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 0).port = 1; }},
      {"scale 0", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).quant.scale = 0; }},
      {"scale infinite", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).quant.scale = kInfinity; }},
      {"scale NaN", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).quant.scale = std::nanf(""); }},
      {"zero_point outside of its range", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).quant.zero_point = 128; }},
      {"quantized range outside of its dtype", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).quant.qmax = 200; }},
      {"quantized f32", Code::kCorrupt, [](BuiltProgram& p) { tensor(p, 2).dtype = DType::kF32; }},
      {"unknown op", Code::kUnsupported, [](BuiltProgram& p) { step(p, 0).op = 0x7fff; }},
      {"newer op version", Code::kVersion, [](BuiltProgram& p) { step(p, 0).version = 2; }},
      {"one operand too few", Code::kCorrupt, [](BuiltProgram& p) { step(p, 0).n_in = 1; }},
      {"two results", Code::kCorrupt, [](BuiltProgram& p) { step(p, 0).n_out = 2; }},
      {"operands past the table", Code::kCorrupt, [](BuiltProgram& p) { step(p, 0).operands = 0xffffffff; }},
      {"attributes longer than their struct", Code::kCorrupt, [](BuiltProgram& p) { step(p, 0).attr_bytes = 12; }},
      {"attributes unaligned", Code::kCorrupt, [](BuiltProgram& p) { step(p, 1).attrs = 2; }},
      {"attributes past the table", Code::kCorrupt, [](BuiltProgram& p) { step(p, 1).attrs = 0xfffffffc; }},
      {"macs out of range", Code::kCorrupt, [](BuiltProgram& p) { step(p, 1).macs_dim = 1000; }},
      {"missing required operand", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 0, 1) = kNoTensor; }},
      {"operand out of range", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 0, 1) = 6; }},
      {"operand read before it is written", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 0, 0) = 3; }},
      {"result that is an input", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 0, 2) = 0; }},
      {"result written twice", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 1, 2) = 2; }},
      {"output never written", Code::kCorrupt,
       [](BuiltProgram& p) {
         operand(p, 2, 1) = 3;
         operand(p, 1, 2) = 4;
       }},
      {"Assign to a constant", Code::kCorrupt, [](BuiltProgram& p) { operand(p, 3, 0) = 1; }},
  };
  for (const Damage& d : damages) {
    BuiltProgram p = small().build();
    d.apply(p);
    Program out;
    const Status s = p.open(&out);
    CHECK_MESSAGE(s.code == d.code, d.what << ": code " << static_cast<int>(s.code));
  }
}

TEST_CASE("attributes with a list too long or a NaN are refused") {
  ProgramBuilder b;
  const uint32_t x = b.input(DType::kF32, {4}), y = b.temp(DType::kF32, {4}), z = b.output(DType::kF32, {4});
  ReduceAttrs reduce;
  ClampAttrs clamp;
  SUBCASE("list") { reduce.axes.count = 9; }
  SUBCASE("negative list") { reduce.axes.count = -1; }
  SUBCASE("NaN") { clamp.lo = std::nanf(""); }
  b.step(Op::kMean, reduce, {x}, {y});
  b.step(Op::kClamp, clamp, {y}, {z});
  Program p;
  CHECK(b.build().open(&p).code == Code::kCorrupt);
}

TEST_CASE("records longer than this build knows are read by their size") {
  const ProgramBuilder b = small();
  const BuiltProgram built = b.build();
  BuiltProgram longer = b.build();
  ProgramHeader h = header(longer);
  // The same tables with 8 more bytes per tensor, appended behind the old ones.
  std::vector<uint8_t> bytes(longer.plan_data(), longer.plan_data() + longer.plan_bytes);
  const auto at = static_cast<uint32_t>(bytes.size());
  for (uint32_t i = 0; i < h.tensor_count; ++i) {
    const auto* t = reinterpret_cast<const uint8_t*>(&tensor(longer, i));
    bytes.insert(bytes.end(), t, t + sizeof(ProgramTensor));
    bytes.insert(bytes.end(), 8, 0xee);
  }
  h.tensor_at = at, h.tensor_bytes = sizeof(ProgramTensor) + 8, h.minor = 1, h.bytes = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &h, sizeof h);
  longer.plan_words.resize((bytes.size() + 7) / 8);
  std::memcpy(longer.plan_data(), bytes.data(), bytes.size());
  longer.plan_bytes = bytes.size();
  Program p, q;
  REQUIRE(built.open(&p).ok());
  REQUIRE(longer.open(&q).ok());
  for (uint32_t i = 0; i < p.tensor_count(); ++i) CHECK(std::memcmp(&p.tensor(i), &q.tensor(i), sizeof(ProgramTensor)) == 0);
}

TEST_CASE("every truncation of a program is an error") {
  const BuiltProgram built = small().build();
  for (size_t n = 0; n < built.plan_bytes; ++n) {
    Program p;
    CHECK(!program_open({built.plan().data, n}, built.weights_view(), &p).ok());
  }
}

namespace {

Status shapes_for(const Program& p, std::vector<Shape> inputs, std::vector<Shape>* out) {
  test::HeapPlanMemory heap;
  BoundDims dims;
  const Status s = evaluate_dims(p, inputs.data(), heap.memory(), &dims);
  if (s.ok()) out->assign(dims.shapes, dims.shapes + p.tensor_count());
  return s;
}

}  // namespace

TEST_CASE("dims follow from the input shapes") {
  ProgramBuilder b;
  const auto n = b.symbol(0), h = b.symbol(1);
  const uint32_t x = b.input(DType::kF32, {n, h});
  const auto half = b.expression(DimOp::kFloorDiv, b.expression(DimOp::kAdd, h, 1), 2);
  const auto up = b.expression(DimOp::kCeilDiv, h, 4);
  const auto least = b.expression(DimOp::kMin, b.expression(DimOp::kMax, n, 3), b.expression(DimOp::kSub, h, n));
  const uint32_t y = b.output(DType::kF32, {b.expression(DimOp::kMul, n, 10), half, up, least});
  b.step(Op::kReshape, NoAttrs{}, {x}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  std::vector<Shape> shapes;
  REQUIRE(shapes_for(p, {Shape{{2, 9}, 2}}, &shapes).ok());
  CHECK(shapes[y] == Shape{{20, 5, 3, 3}, 4});

  SUBCASE("a negative dim is an error") {
    const Status s = shapes_for(p, {Shape{{9, 2}, 2}}, &shapes);
    CHECK(s.code == Code::kCorrupt);
  }
  SUBCASE("a tensor over 2 GiB is an error") {
    const Status s = shapes_for(p, {Shape{{1 << 20, 1 << 14}, 2}}, &shapes);
    CHECK(s.code == Code::kCorrupt);
  }
}

TEST_CASE("wrong input shapes are refused with port, axis and both numbers") {
  ProgramBuilder b;
  const auto n = b.symbol();
  const uint32_t x = b.input(DType::kF32, {n, 3}), z = b.input(DType::kF32, {5, n});
  const uint32_t y = b.output(DType::kF32, {n, 3});
  b.step(Op::kAdd, BinaryAttrs{}, {x, z}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  std::vector<Shape> shapes;
  CHECK(shapes_for(p, {Shape{{7, 3}, 2}, Shape{{5, 7}, 2}}, &shapes).ok());
  const auto is = [](const Status& s, uint32_t port, uint32_t axis, uint32_t needed, uint32_t got) {
    return s.code == Code::kInvalidArgument && s.where == port * kMaxRank + axis && s.needed == needed && s.got == got;
  };
  CHECK(is(shapes_for(p, {Shape{{7, 4}, 2}, Shape{{5, 7}, 2}}, &shapes), 0, 1, 3, 4));
  CHECK(is(shapes_for(p, {Shape{{7, 3}, 2}, Shape{{5, 8}, 2}}, &shapes), 1, 1, 7, 8));
  CHECK(is(shapes_for(p, {Shape{{7, 3}, 2}, Shape{{5}, 1}}, &shapes), 1, 0, 2, 1));
  CHECK(shapes_for(p, {Shape{{-7, 3}, 2}, Shape{{5, -7}, 2}}, &shapes).code == Code::kInvalidArgument);
}

TEST_CASE("a division by zero among dims is an error") {
  ProgramBuilder b;
  const auto n = b.symbol();
  const uint32_t x = b.input(DType::kF32, {n});
  const auto zero = b.expression(DimOp::kSub, n, 2);
  const uint32_t y = b.output(DType::kF32, {b.expression(DimOp::kFloorDiv, 6, zero)});
  b.step(Op::kReshape, NoAttrs{}, {x}, {y});
  const BuiltProgram built = b.build();
  Program p;
  REQUIRE(built.open(&p).ok());
  std::vector<Shape> shapes;
  CHECK(shapes_for(p, {Shape{{3}, 1}}, &shapes).ok());
  CHECK(shapes_for(p, {Shape{{2}, 1}}, &shapes).code == Code::kCorrupt);
}
