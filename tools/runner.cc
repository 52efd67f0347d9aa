#include "tools/runner.h"

#include <algorithm>

#include "lathe/arith.h"
#include "runtime/host/ports.h"

namespace lathe::tools {
namespace {

constexpr size_t kReadPast = 64;  // kernels may read past a buffer's end

std::string input_name(const LoadedProgram& program, size_t i) {
  return i < program.input_names.size() ? "input '" + program.input_names[i] + "'" : "input " + std::to_string(i);
}

template <class T>
void convert(const uint8_t* bytes, std::vector<float>* values) {
  const T* data = reinterpret_cast<const T*>(bytes);
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>(data[i]);
}

}  // namespace

Result<Runner> Runner::create(std::shared_ptr<const LoadedProgram> program, const SessionOptions& options) {
  Runner r;
  r.program_ = std::move(program);
  const Program& p = r.program_->program;
  r.input_ids_ = port_tensors(p, TensorKind::kInput);
  r.output_ids_ = port_tensors(p, TensorKind::kOutput);
  r.inputs_.resize(r.input_ids_.size());
  r.outputs_.resize(r.output_ids_.size());
  SessionOptions padded = options;
  padded.padded_inputs = true;  // see bind()
  LATHE_TRY(r.session_, HostSession::create(r.program_, padded));
  return r;
}

bool Runner::batch_is_open() const {
  for (size_t i = 0; i < input_ids_.size(); ++i)
    if (input_tensor(i).rank == 0 || program_->program.dim(input_tensor(i).dims[0]).op == DimOp::kConst) return false;
  return !input_ids_.empty();
}

Result<std::vector<Shape>> Runner::shapes_for(uint32_t batch) const {
  return shapes_for(batch, std::vector<std::vector<int64_t>>(input_ids_.size()));
}

Result<std::vector<Shape>> Runner::shapes_for(uint32_t batch, const std::vector<std::vector<int64_t>>& sample_dims) const {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < input_ids_.size(); ++i) {
    const ProgramTensor& t = input_tensor(i);
    const std::vector<int64_t>& sample = sample_dims[i];
    Shape s;
    s.rank = t.rank;
    for (uint32_t a = 0; a < t.rank; ++a) {
      const ProgramDim& d = program_->program.dim(t.dims[a]);
      if (d.op == DimOp::kConst) {
        s.dims[a] = d.a;
      } else if (a == 0) {
        s.dims[a] = static_cast<int32_t>(batch);
      } else if (a - 1 < sample.size()) {
        s.dims[a] = static_cast<int32_t>(sample[a - 1]);
      } else {
        return fail(Code::kInvalidArgument,
                    input_name(*program_, i) + ": dim " + std::to_string(a) + " is open; fix it with --shape");
      }
    }
    if (t.rank > 0 && batch != 1 && s.dims[0] != static_cast<int32_t>(batch))
      return fail(Code::kInvalidArgument, input_name(*program_, i) + ": the model fixes a batch of " + std::to_string(s.dims[0]) +
                                              ", asked for " + std::to_string(batch));
    shapes.push_back(s);
  }
  return shapes;
}

Result<void> Runner::bind(const std::vector<Shape>& input_shapes) {
  LATHE_CHECK_OK(session_->bind(input_shapes));
  shapes_ = input_shapes;
  input_pointers_.clear();
  output_pointers_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].resize(static_cast<size_t>(shapes_[i].elems()) * dtype_bytes(input_tensor(i).dtype) + kReadPast);
    input_pointers_.push_back(inputs_[i].data());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (session_->is_open(static_cast<uint32_t>(i))) {
      output_pointers_.push_back(nullptr);
      continue;
    }
    outputs_[i].resize(static_cast<size_t>(output_shape(i).elems()) * dtype_bytes(output_tensor(i).dtype) + kReadPast);
    output_pointers_.push_back(outputs_[i].data());
  }
  return {};
}

void Runner::load_real(size_t i, size_t first, std::span<const float> values) {
  const ProgramTensor& t = input_tensor(i);
  if (t.dtype == DType::kF32) {
    std::copy(values.begin(), values.end(), reinterpret_cast<float*>(input(i)) + first);
    return;
  }
  const QuantParams& q = t.quant;
  auto* to = reinterpret_cast<int8_t*>(input(i)) + first;
  for (const float v : values) *to++ = static_cast<int8_t>(quantize(v, q.scale, q.zero_point, q.qmin, q.qmax));
}

Result<void> Runner::run() { return session_->run(input_pointers_, output_pointers_); }

Result<void> Runner::output_values(size_t i, std::vector<float>* values) {
  const ProgramTensor& t = output_tensor(i);
  values->resize(output_shape(i).elems());
  switch (t.dtype) {
    case DType::kF32:
      convert<float>(output(i), values);
      break;
    case DType::kS8:
      convert<int8_t>(output(i), values);
      break;
    case DType::kU8:
    case DType::kBool:
      convert<uint8_t>(output(i), values);
      break;
    case DType::kS16:
      convert<int16_t>(output(i), values);
      break;
    case DType::kU16:
      convert<uint16_t>(output(i), values);
      break;
    case DType::kS32:
      convert<int32_t>(output(i), values);
      break;
    case DType::kS64:
      convert<int64_t>(output(i), values);
      break;
    case DType::kU32:
      convert<uint32_t>(output(i), values);
      break;
    case DType::kU64:
      convert<uint64_t>(output(i), values);
      break;
    case DType::kF64:
      convert<double>(output(i), values);
      break;
    case DType::kF16:
    case DType::kBF16:
      return fail(Code::kUnsupported,
                  std::string("output ") + std::to_string(i) + " is " + dtype_name(t.dtype) + ", which cannot be shown");
  }
  if ((t.flags & kTensorHasQuant) != 0)
    for (float& v : *values) v = dequantize(static_cast<int32_t>(v), t.quant.scale, t.quant.zero_point);
  return {};
}

std::string shape_text(const Shape& shape) {
  std::string s;
  for (uint32_t i = 0; i < shape.rank; ++i) s += (i == 0 ? "" : "x") + std::to_string(shape.dims[i]);
  return shape.rank == 0 ? "scalar" : s;
}

std::string declared_shape_text(const LoadedProgram& program, uint32_t tensor) {
  const ProgramTensor& t = program.program.tensor(tensor);
  std::string s;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const ProgramDim& d = program.program.dim(t.dims[i]);
    s += i == 0 ? "" : "x";
    if (d.op == DimOp::kConst)
      s += std::to_string(d.a);
    else if (d.op == DimOp::kSymbol && static_cast<size_t>(d.a) < program.symbol_names.size())
      s += program.symbol_names[static_cast<size_t>(d.a)];
    else
      s += "?";
  }
  return t.rank == 0 ? "scalar" : s;
}

}  // namespace lathe::tools
