// Embeds a compiled model in a C++ program: opens it, describes its inputs, runs it once on zeros and prints the first results.
//
//   embed model.lathe
//
// Build outside of this tree: g++ -std=c++20 embed.cc $(pkg-config --cflags --libs --static lathe)
#include <cstdio>
#include <cstdint>
#include <vector>

#include "lathe/session.h"

namespace {

// Real values of an 8-bit or float32 output.
float value_at(const lathe::TensorInfo& info, const std::vector<uint8_t>& bytes, size_t i) {
  if (info.dtype == lathe::DType::kF32) return reinterpret_cast<const float*>(bytes.data())[i];
  const auto q = reinterpret_cast<const int8_t*>(bytes.data())[i];
  return info.quant ? static_cast<float>(q - info.quant->zero_point) * info.quant->scale : static_cast<float>(q);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: embed model.lathe\n");
    return 2;
  }
  std::string error;
  const auto model = lathe::Model::open(argv[1], &error);
  auto session = model ? lathe::Session::create(*model, {}, &error) : std::nullopt;
  if (!session) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }

  // One sample: dims that the model leaves open are 1.
  std::vector<lathe::Shape> shapes;
  std::vector<std::vector<uint8_t>> inputs, outputs;
  for (const lathe::TensorInfo& info : model->inputs()) {
    lathe::Shape shape = info.shape;
    for (uint32_t i = 0; i < shape.rank; ++i) shape.dims[i] = shape.dims[i] < 0 ? 1 : shape.dims[i];
    std::printf("input %s %s, %u elements\n", info.name.c_str(), lathe::dtype_name(info.dtype), shape.elems());
    shapes.push_back(shape);
    inputs.emplace_back(lathe::tensor_bytes(info.dtype, shape));
  }
  if (!session->bind(shapes, &error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  for (size_t i = 0; i < model->outputs().size(); ++i)
    outputs.emplace_back(lathe::tensor_bytes(model->outputs()[i].dtype, session->output_shape(i)));

  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& v : inputs) in.push_back(v.data());
  for (auto& v : outputs) out.push_back(v.data());
  if (!session->run(in.data(), out.data(), &error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const lathe::TensorInfo& info = model->outputs()[i];
    const size_t count = session->output_shape(i).elems();
    std::printf("output %s:", info.name.c_str());
    for (size_t k = 0; k < count && k < 10; ++k) std::printf(" %g", static_cast<double>(value_at(info, outputs[i], k)));
    std::printf("\n");
  }
  std::printf("arena %llu bytes\n", static_cast<unsigned long long>(session->arena_bytes()));
  return 0;
}
