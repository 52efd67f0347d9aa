// Pictures of an image folder, decoded on access. Internal to data/.
#pragma once
#include <string>
#include <vector>

#include "data/samples.h"

namespace lathe {

// root/class/picture.png, or root/picture.png without labels; sorted by name. `p` gives size and channels.
Result<LoadedSamples> load_image_folders(const std::vector<std::string>& roots, const Preprocessing& p,
                                         const std::vector<std::string>& classes);

}  // namespace lathe
