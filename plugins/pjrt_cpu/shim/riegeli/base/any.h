// Stands for a header of Riegeli, which newer wheels' XLA includes and no wheel ships: functions that we do not call take such a reader.
#pragma once

namespace riegeli {

class Reader;

template <typename Handle>
class Any {};

}  // namespace riegeli
