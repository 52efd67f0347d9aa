#include "graph/pass.h"

#include "graph/passes/passes.h"

namespace lathe {
namespace {

constexpr Pass kImportPasses[] = {
    {"fold-shapes", passes::fold_shapes},
    {"fold-constants", passes::fold_constants},
    {"drop-identities", passes::drop_identities},
    {"cancel-transposes", passes::cancel_transposes},
    {"fuse-quantized", passes::fuse_quantized},
    {"fuse-dynamic", passes::fuse_dynamic},
    {"fold-flatten", passes::fold_flatten},
    {"dead-code", passes::dead_code},
};

// Residuals go before activations: a convolution clamps after it has added its residual.
constexpr Pass kLoweringPasses[] = {
    {"lower-fold-shapes", passes::fold_shapes},
    {"lower-fold-constants", passes::fold_constants},
    {"lower-drop-identities", passes::drop_identities},
    {"lower-cancel-transposes", passes::cancel_transposes},
    {"fuse-layer-norm", passes::fuse_layer_norm},
    {"fuse-gelu", passes::fuse_gelu},
    {"fuse-silu", passes::fuse_silu},
    {"fold-matmul-transposes", passes::fold_matmul_transposes},
    {"fuse-scale", passes::fuse_scale},
    {"fuse-bias", passes::fuse_bias},
    {"fold-batchnorm", passes::fold_batchnorm},
    {"split-batchnorm", passes::split_batchnorm},
    {"fuse-pad", passes::fuse_pad},
    {"fuse-clamps", passes::fuse_clamps},
    {"fuse-residual", passes::fuse_residual},
    {"fuse-activation", passes::fuse_activation},
    {"split-weights", passes::split_weights},
    {"lower-dead-code", passes::dead_code},
};

bool known(std::span<const Pass> passes, const std::string& name) {
  for (const Pass& p : passes) {
    if (name == p.name) return true;
  }
  return false;
}

Error unknown_pass(std::span<const Pass> passes, const std::string& name) {
  std::string names;
  for (const Pass& p : passes) names += (names.empty() ? "" : ", ") + std::string(p.name);
  return {Code::kInvalidArgument, "no pass '" + name + "'; the passes are " + names};
}

Result<void> run_pass(Graph& graph, const Pass& pass, const PassOptions& options) {
  Rewriter rewriter(graph);
  LATHE_CHECK_OK(pass.run(rewriter));
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_CHECK_OK(verify(graph));
  if (rewriter.edits() > 0 && options.on_changed) options.on_changed(pass, graph, rewriter.edits());
  return {};
}

}  // namespace

std::span<const Pass> import_passes() { return kImportPasses; }
std::span<const Pass> lowering_passes() { return kLoweringPasses; }

Result<void> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options) {
  if (!options.stop_after.empty() && !known(passes, options.stop_after)) {
    return tl::unexpected<Error>(unknown_pass(passes, options.stop_after));
  }
  for (const Pass& pass : passes) {
    Result<void> done = run_pass(graph, pass, options);
    if (!done) return tl::unexpected<Error>(with_context(std::move(done.error()), "pass " + std::string(pass.name)));
    if (options.stop_after == pass.name) return {};
  }
  return {};
}

}  // namespace lathe
