// The larger and the smaller of two values. NaN wins, as in NumPy's maximum and minimum.
#pragma once

namespace lathe {

struct Larger {
  template <class T> T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
struct Smaller {
  template <class T> T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};

}  // namespace lathe
