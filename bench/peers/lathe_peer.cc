// Lathe itself, for bench/peers: single layers as one-step programs, models as `lathe bench` runs them.
//
// A layer is timed without its program's border: in a network the neighbours of a layer already hold the plan's 8-bit storage.
#include "bench/peers/peer.h"
#include "runtime/host/cpu.h"
#include "runtime/host/team.h"
#include "tests/conv/conv_problem.h"
#include "tools/measured_model.h"

namespace lathe::peers {
namespace {

// The zero point of what a ReLU left, which is 0 as stored: padding adds nothing, as in the convolution that oneDNN is given.
constexpr int kAfterRelu = -128;

std::unique_ptr<Team> make_team(uint32_t threads) {
  auto team = Team::create(threads, usable_cpus());
  if (!team) throw std::runtime_error(team.error().message);
  return std::move(*team);
}

template <class T>
struct Layer {
  template <class Problem>
  Layer(const Problem& problem, kernels::IsaSet isa, uint32_t threads)
      : team(make_team(threads)), parallel(team->parallel()), y(problem.out_elems() + 64) {
    const Status opened = problem.built().open(&program);
    const Status bound = opened.ok() ? core.bind(program, problem.input_shapes(), test::bind_options({isa, threads})) : opened;
    if (!bound.ok()) throw std::runtime_error("not bound");
    core.run(problem.inputs(), {y.data()}, nullptr, parallel);
  }
  void run() {
    const Team::Turn turn(*team);
    run_steps(core.binding.plan, test::conv_table(), core.memory, parallel, nullptr, 0, core.binding.plan.step_count);
  }

  std::unique_ptr<Team> team;
  Parallel parallel;
  std::vector<T> y;
  Program program;
  test::CoreRun core;
};

class LathePeer : public Peer {
 public:
  explicit LathePeer(kernels::IsaSet isa) : isa_(isa) {}
  std::string version() override { return std::string("lathe ") + isa_text(isa_); }

  Run gemm(const Gemm& g, uint32_t threads) override {
    const auto i = [](uint32_t v) { return static_cast<int>(v); };
    return layer(
        {.n = i(g.m), .h = 1, .w = 1, .ic = i(g.k), .oc = i(g.n), .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0},
        g.type, threads, true);
  }
  Run conv(const Conv& c, uint32_t threads) override {
    const auto i = [](uint32_t v) { return static_cast<int>(v); };
    const int k = i(c.kernel), s = i(c.stride), p = i(c.pad);
    return layer({.h = i(c.h),
                  .w = i(c.w),
                  .ic = i(c.c),
                  .oc = i(c.oc),
                  .kh = k,
                  .kw = k,
                  .stride_h = s,
                  .stride_w = s,
                  .top = p,
                  .left = p,
                  .bottom = p,
                  .right = p,
                  .groups = i(c.groups),
                  .x_zero = kAfterRelu},
                 c.type, threads, false);
  }
  Run net(const Net& net, uint32_t threads) override {
    tools::MeasureFlags flags;
    flags.model = net.file;
    flags.batch = net.batch;
    flags.session.threads = threads;
    auto opened = tools::open_measured(flags);
    if (!opened) throw std::runtime_error(opened.error().message);
    auto model = std::make_shared<tools::MeasuredModel>(std::move(*opened));
    return [model] {
      if (!model->runner.run()) throw std::runtime_error("run failed");
    };
  }

 private:
  Run layer(const test::ConvCase& c, Type type, uint32_t threads, bool fully_connected) {
    if (type == Type::kF32) {
      auto problem = std::make_shared<test::FloatConv>(c, 1, fully_connected);
      auto bound = std::make_shared<Layer<float>>(*problem, isa_, threads);
      return [problem, bound] { bound->run(); };
    }
    auto problem = std::make_shared<test::QuantizedConv>(c, 1, fully_connected);
    auto bound = std::make_shared<Layer<int8_t>>(*problem, isa_, threads);
    return [problem, bound] { bound->run(); };
  }
  kernels::IsaSet isa_;
};

}  // namespace
}  // namespace lathe::peers

int main() {
  const auto isa = lathe::machine_isa();
  if (!isa) return 2;
  lathe::peers::LathePeer peer(*isa);
  return lathe::peers::serve(peer);
}
