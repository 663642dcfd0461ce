#include "plugins/pathways_pjrt/shared_array.h"

namespace pw::pathways_pjrt {

std::shared_ptr<SharedArray> SharedArray::Of(client::Client* session, const buffers::ArraySpec& spec,
                                             std::vector<std::shared_ptr<SharedArray>> singles) {
  std::vector<const client::Array*> arrays;
  arrays.reserve(singles.size());
  for (const auto& single : singles) arrays.push_back(&single->array());
  auto whole = std::make_shared<SharedArray>(session, session->Assemble(spec, arrays), static_cast<int>(singles.size()));
  whole->singles_ = std::move(singles);
  return whole;
}

std::shared_ptr<SharedArray> SharedArray::Single(const Place& place) {
  SharedArray& array = *place.array;
  if (array.num_shards_ == 1) return place.array;
  std::lock_guard<std::mutex> lock(array.mu_);
  if (array.singles_.empty()) {
    for (client::Array& single : array.session_->Disassemble(array.array_, array.num_shards_))
      array.singles_.push_back(std::make_shared<SharedArray>(array.session_, std::move(single), 1));
  }
  return array.singles_[place.shard];
}

Future<Unit> SharedArray::Ready() {
  std::lock_guard<std::mutex> lock(mu_);
  if (!ready_.valid()) ready_ = session_->Ready(array_);
  return ready_;
}

void SharedArray::ForgetSingles() {
  std::lock_guard<std::mutex> lock(mu_);
  singles_.clear();
}

}  // namespace pw::pathways_pjrt
