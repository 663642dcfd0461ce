#include "pathways/frontend/translation/translations.h"

#include <iterator>

namespace pw::frontend {

std::optional<Bytes> Translations::Find(uint64_t client, const std::string& version, const Bytes& program) {
  if (entries_.empty()) return std::nullopt;  // saves hashing
  for (uint64_t owner : {kEverybody, client}) {
    auto it = index_.find(Key{owner, version, program.view()});
    if (it == index_.end()) continue;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->translation;
  }
  return std::nullopt;
}

void Translations::Add(uint64_t owner, const std::string& version, const Bytes& program, const Bytes& translation) {
  Entry entry{owner, version, program, translation};
  if (SizeOf(entry) > limits_.bytes) return;
  if (auto it = index_.find(KeyOf(entry)); it != index_.end()) Remove(it->second);
  bytes_ += SizeOf(entry);
  entries_.push_front(std::move(entry));
  index_.emplace(KeyOf(entries_.front()), entries_.begin());
  while (entries_.size() > limits_.programs || bytes_ > limits_.bytes) Remove(std::prev(entries_.end()));
}

void Translations::Forget(uint64_t owner) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->owner == owner) Remove(entry);
  }
}

void Translations::Remove(Entries::iterator entry) {
  bytes_ -= SizeOf(*entry);
  index_.erase(KeyOf(*entry));
  entries_.erase(entry);
}

}  // namespace pw::frontend
