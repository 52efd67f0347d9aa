// Links of ops that do what a convolution does: x [n,h,w,ic], w [oc,kh,kw,ic/groups], bias*, residual*. Used by graph/ops/ only.
#pragma once
#include "graph/links.h"

namespace lathe::ops {

// All but what a constant input gives. Defined with Conv2d.
void link_convolution(Links& l, int64_t groups);

// A depthwise layer has as many groups as input channels.
template <class ConvAttrs> void narrow_depthwise(Attrs& attrs, const Narrowed& gone) {
  auto& a = std::get<ConvAttrs>(attrs);
  const AxisRef x = in_axis(0, 3);
  if (gone.touched(x) && a.groups > 1 && a.groups == gone.extent(x)) a.groups = static_cast<int32_t>(gone.kept(x));
}

}  // namespace lathe::ops
