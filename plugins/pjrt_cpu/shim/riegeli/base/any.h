// Replaces a header of Riegeli, which newer wheels' XLA includes and no wheel ships. Only functions that we do not call use it.
#pragma once

namespace riegeli {

class Reader;

template <typename Handle>
class Any {};

}  // namespace riegeli
