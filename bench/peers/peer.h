// What every program of bench/peers/ has in common: it runs one library, and peers.py drives it through stdin and stdout.
//
//   load ID THREADS SPEC...   ->  ok | none REASON      makes a case; REASON where this library has no such thing
//   time ID MILLISECONDS      ->  us MEDIAN MIN RUNS    runs it, after a warm-up of a quarter of that time
//   drop ID                   ->  ok
//
// A SPEC is one of
//   gemm M N K TYPE                  y[m, n] = sum_k x[m, k] w[k, n], TYPE of x: u8, s8 (weights s8, result requantized to 8 bit)
//   or f32 conv H W C OC K STRIDE PAD GROUPS TYPE    one NHWC image, square kernel, padding on all sides net FILE BATCH a whole
//   model; what kind of file depends on the library
// Libraries live in processes of their own, so that their thread pools and allocators do not meet. peers.py runs them in turn, and
// waits in between: idle threads of some spin on for 8 ms and more, which would leave the next one a single CPU.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lathe::peers {

// 8-bit values are what a layer after a ReLU would have: any scale does for timing, but zero points are not 0.
enum class Type { kU8, kS8, kF32 };

struct Gemm {
  uint32_t m, n, k;
  Type type;
};

struct Conv {
  uint32_t h, w, c, oc, kernel, stride, pad, groups;
  Type type;
  uint32_t oh() const { return (h + 2 * pad - kernel) / stride + 1; }
  uint32_t ow() const { return (w + 2 * pad - kernel) / stride + 1; }
};

struct Net {
  std::string file;
  uint32_t batch;
};

// One run of a loaded case; what it needs lives in the closure.
using Run = std::function<void()>;

// Throw std::runtime_error with the reason where the library cannot do it.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string version() = 0;
  virtual Run gemm(const Gemm& shape, uint32_t threads) = 0;
  virtual Run conv(const Conv& shape, uint32_t threads) = 0;
  virtual Run net(const Net& net, uint32_t threads) = 0;
};

// Serves commands until stdin ends. Prints `hello VERSION` first.
int serve(Peer& peer);

// `n` reproducible bytes, and floats in [-1, 1).
std::vector<uint8_t> random_bytes(size_t n);
std::vector<float> random_floats(size_t n);

}  // namespace lathe::peers
