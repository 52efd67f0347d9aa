// Writes the sources of a firmware test into a folder: model.h, model.cc, model_cases.h.
//
//   make_case FOLDER KERNELS [MODEL.lathe]
//
// KERNELS is a level of instruction sets, as `lathe embed --kernels` takes it. Without a model: the small 8-bit network of
// tests/runtime/sample_cnn.h. Expected outputs come from the host's own kernels, u8
// storage and all, so that firmware that agrees agrees with every instruction set.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "runtime/host/cpu.h"
#include "runtime/host/embed.h"
#include "runtime/host/model.h"
#include "tests/runtime/sample_cnn.h"

using namespace lathe;

namespace {

constexpr uint32_t kCases = 3;

Result<std::shared_ptr<const LoadedProgram>> sample() {
  auto built = std::make_shared<test::BuiltProgram>(test::SampleCnn(true).build());
  auto loaded = std::make_shared<LoadedProgram>();
  if (!built->open(&loaded->program).ok()) return fail(Code::kCorrupt, "sample program does not open");
  loaded->owner = built;
  return loaded;
}

void fill(std::vector<uint8_t>* bytes, DType dtype, uint32_t number) {
  for (size_t i = 0; i < bytes->size() / dtype_bytes(dtype); ++i) {
    const float v = std::sin(static_cast<float>(i * 7 + number * 31) * 0.37f);
    if (dtype == DType::kF32) std::memcpy(bytes->data() + i * 4, &v, 4);
    else (*bytes)[i] = static_cast<uint8_t>(static_cast<int>(v * 127));
  }
}

Result<EmbedCase> run_case(HostSession& session, const Program& p, uint32_t number) {
  EmbedCase c;
  c.inputs.resize(p.header().input_count);
  c.outputs.resize(p.header().output_count);
  std::vector<const void*> in(c.inputs.size());
  std::vector<void*> out(c.outputs.size());
  for (uint32_t t = 0; t < p.tensor_count(); ++t) {
    const ProgramTensor& x = p.tensor(t);
    if (x.kind != TensorKind::kInput && x.kind != TensorKind::kOutput) continue;
    std::vector<uint8_t>& bytes = x.kind == TensorKind::kInput ? c.inputs[x.port] : c.outputs[x.port];
    bytes.resize(session.tensor_shape(t).elems() * dtype_bytes(x.dtype));
    if (x.kind == TensorKind::kInput) fill(&bytes, x.dtype, number);
  }
  for (size_t i = 0; i < in.size(); ++i) in[i] = c.inputs[i].data();
  for (size_t i = 0; i < out.size(); ++i) out[i] = c.outputs[i].data();
  session.reset();
  LATHE_CHECK_OK(session.run(in, out));
  return c;
}

Result<void> write(const std::string& path, const std::string& text) {
  std::ofstream f(path, std::ios::binary);
  f << text;
  f.close();
  if (!f) return fail(Code::kIo, path + ": cannot be written");
  return {};
}

Result<void> make(const std::string& folder, const char* kernels, const char* path) {
  LATHE_TRY(const auto loaded, path == nullptr ? sample() : load_program(path));
  EmbedOptions options;
  LATHE_TRY(options.isa, parse_isa(kernels));
  LATHE_TRY(const EmbeddedModel model, embed_program(*loaded, options));
  LATHE_TRY(const auto isa, machine_isa());
  LATHE_TRY(const auto session, HostSession::create(loaded, {isa, 1}));
  const Program& p = loaded->program;
  std::vector<Shape> shapes(p.header().input_count);
  for (uint32_t t = 0; t < p.tensor_count(); ++t) {
    const ProgramTensor& x = p.tensor(t);
    if (x.kind != TensorKind::kInput) continue;
    shapes[x.port].rank = x.rank;
    for (uint32_t i = 0; i < x.rank; ++i) shapes[x.port].dims[i] = p.dim(x.dims[i]).op == DimOp::kConst ? p.dim(x.dims[i]).a : 1;
  }
  LATHE_CHECK_OK(session->bind(shapes));
  std::vector<EmbedCase> cases;
  for (uint32_t i = 0; i < kCases; ++i) {
    LATHE_TRY(EmbedCase c, run_case(*session, p, i));
    cases.push_back(std::move(c));
  }
  LATHE_CHECK_OK(write(folder + "/model.h", model.header));
  LATHE_CHECK_OK(write(folder + "/model.cc", model.source));
  LATHE_CHECK_OK(write(folder + "/model_cases.h", embed_cases("model", cases)));
  std::printf("arena %u bytes (lower bound %u), weights %u, plan %u, %zu operators, %zu kernels\n", model.arena_bytes,
              model.arena_lower_bound, model.weight_bytes, model.plan_bytes, model.ops.size(), model.kernels.size());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: make_case FOLDER KERNELS [MODEL.lathe]\n");
    return 2;
  }
  const auto made = make(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  if (!made) std::fprintf(stderr, "make_case: %s\n", made.error().message.c_str());
  return made ? 0 : 1;
}
