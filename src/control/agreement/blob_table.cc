#include "control/agreement/blob_table.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tutti {
namespace {

// What stands before the blobs on the wire.
enum class Form : std::uint8_t {
  none,
  with_lengths,  // each after its length
  even,          // the length of each, then all of them
};

}  // namespace

BlobTable::BlobTable(const std::vector<Blob>& blobs) : count_(blobs.size()) {
  if (blobs.empty()) return;
  each_ = blobs.front().size();
  const bool even = std::all_of(blobs.begin(), blobs.end(), [&](const Blob& blob) { return blob.size() == each_; });
  auto bytes = std::make_shared<Blob>();
  std::vector<BlobPlace> places;
  for (const Blob& blob : blobs) {
    if (!even) places.push_back({bytes->size(), blob.size()});
    bytes->insert(bytes->end(), blob.begin(), blob.end());
  }
  if (!even) places_ = std::make_shared<const std::vector<BlobPlace>>(std::move(places));
  data_ = std::shared_ptr<const std::byte>(bytes, bytes->data());
}

std::span<const std::byte> BlobTable::operator[](std::size_t place) const {
  if (is_even()) return {data_.get() + place * each_, each_};
  return {data_.get() + (*places_)[place].first, (*places_)[place].bytes};
}

std::vector<Blob> BlobTable::copies() const {
  std::vector<Blob> blobs;
  blobs.reserve(count_);
  for (std::size_t place = 0; place < count_; ++place) {
    const auto blob = (*this)[place];
    blobs.emplace_back(blob.begin(), blob.end());
  }
  return blobs;
}

std::size_t BlobTable::bytes() const {
  if (is_even()) return count_ * each_;
  std::size_t sum = 0;
  for (const BlobPlace& place : *places_) sum += place.bytes;
  return sum;
}

bool BlobTable::operator==(const BlobTable& other) const {
  if (count_ != other.count_) return false;
  for (std::size_t place = 0; place < count_; ++place) {
    const auto own = (*this)[place];
    const auto theirs = other[place];
    if (!std::equal(own.begin(), own.end(), theirs.begin(), theirs.end())) return false;
  }
  return true;
}

void BlobTable::encode(WireWriter& out) const {
  if (empty()) return out.put(Form::none);
  if (is_even() && count_ > 1) {
    out.put(Form::even);
    out.put(static_cast<std::uint32_t>(each_));
    return out.put_raw({data_.get(), count_ * each_});
  }
  out.put(Form::with_lengths);
  for (std::size_t place = 0; place < count_; ++place) out.put_bytes((*this)[place]);
}

bool BlobTable::decode(WireReader& in, std::size_t blobs, const SharedBytes& owner) {
  clear();
  const Form form = in.get<Form>();
  if (form == Form::none || !in.ok()) return in.ok();
  if (blobs == 0 || form > Form::even) return false;
  if (form == Form::even) {
    each_ = in.get<std::uint32_t>();
    const auto all = in.view(blobs * each_);
    data_ = std::shared_ptr<const std::byte>(owner, all.data());
  } else {
    const std::byte* const first = in.rest().data();
    std::vector<BlobPlace> places;
    for (std::size_t blob = 0; blob < blobs && in.ok(); ++blob) {
      const auto bytes = in.view(in.get<std::uint32_t>());
      places.push_back({bytes.empty() ? 0 : static_cast<std::size_t>(bytes.data() - first), bytes.size()});
    }
    data_ = std::shared_ptr<const std::byte>(owner, first);
    places_ = std::make_shared<const std::vector<BlobPlace>>(std::move(places));
  }
  count_ = in.ok() ? blobs : 0;
  return in.ok();
}

}  // namespace tutti
