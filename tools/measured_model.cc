#include "tools/measured_model.h"

#include <cstring>

#include "base/random.h"

namespace lathe::tools {
namespace {

void fill_inputs(Runner& runner, uint64_t seed) {
  for (size_t i = 0; i < runner.input_count(); ++i) {
    const uint32_t n = runner.input_shape(i).elems();
    const DType dtype = runner.input_tensor(i).dtype;
    uint8_t* out = runner.input(i);
    std::memset(out, 0, static_cast<size_t>(n) * dtype_bytes(dtype));
    for (uint32_t k = 0; k < n; ++k) {
      const uint64_t r = Random((seed << 40) + (static_cast<uint64_t>(i) << 32) + k).next();
      if (dtype == DType::kF32)
        reinterpret_cast<float*>(out)[k] = static_cast<float>(static_cast<double>(r >> 40) * 0x1p-23 - 1.0);
      else if (dtype == DType::kS8 || dtype == DType::kU8)
        out[k] = static_cast<uint8_t>(r);
    }
  }
}

}  // namespace

void MeasureFlags::add_to(Arguments& args) {
  args.option("model", model, ".lathe, .onnx or .tflite file").required();
  args.option("--batch", batch, "samples per run").show_default();
  args.option("--seconds", seconds, "how long to measure, after a quarter of it (at most a second) as warm-up")
      .show_default()
      .range(0.01, 3600.0);
  args.flag("--json", json, "print JSON");
  session.add_to(args);
  import.add_to(args);
}

Result<Runner> make_runner(const MeasureFlags& flags, const HostModel& model, const SessionOptions& session) {
  if (flags.batch == 0) return fail(Code::kInvalidArgument, "--batch must be at least 1");
  LATHE_TRY(Runner runner, Runner::create(model.program, session));
  LATHE_TRY(const auto shapes, runner.shapes_for(flags.batch));
  LATHE_CHECK_OK(runner.bind(shapes));
  fill_inputs(runner, 1);
  return runner;
}

Result<MeasuredModel> open_measured(const MeasureFlags& flags) {
  LATHE_TRY(const SessionOptions session, flags.session.options());
  LATHE_TRY(HostModel model, load_host_model(flags.model, flags.import));
  LATHE_TRY(Runner runner, make_runner(flags, model, session));
  return MeasuredModel{std::move(model), session, std::move(runner)};
}

}  // namespace lathe::tools
