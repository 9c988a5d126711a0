#include "program/formats/format_msccl.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <pugixml.hpp>
#include <stdexcept>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 20;
constexpr std::int64_t kMaxRanks = 65536;
constexpr std::int64_t kMaxChunks = 1 << 20;  // of a buffer; the runtimes stop at 32,767
constexpr std::int64_t kMaxChannels = 1024;
constexpr std::size_t kMaxWorkers = 4096;

struct XmlError : std::runtime_error {
  XmlError(ErrorCode reason, const std::string& what) : std::runtime_error(what), code(reason) {}
  ErrorCode code;
};

std::ptrdiff_t line_of(std::string_view text, std::ptrdiff_t offset) {
  const std::size_t before = std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)), text.size());
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n');
}

/// An element of the file, checked as it is read.
class Element {
 public:
  Element(pugi::xml_node node, std::string_view text) : node_(node), text_(text) {}

  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) const {
    throw XmlError(code, fmt::format("{}: {}", where(), what));
  }

  std::vector<Element> children(std::string_view name, std::string_view ignored = {}) const {
    std::vector<Element> children;
    for (const pugi::xml_node child : node_.children()) {
      if (child.type() != pugi::node_element) continue;
      if (child.name() == name)
        children.emplace_back(child, text_);
      else if (ignored.empty() || child.name() != ignored)
        Element(child, text_).fail(fmt::format("unknown element <{}>; expected <{}>", shorten(child.name()), name));
    }
    return children;
  }

  bool has(const char* name) const { return !node_.attribute(name).empty(); }

  std::string_view text(const char* name) const {
    const pugi::xml_attribute attribute = node_.attribute(name);
    if (attribute.empty()) fail(fmt::format("attribute '{}' is missing", name));
    return attribute.value();
  }

  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) const {
    const std::string_view value = text(name);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc::result_out_of_range ||
        (error == std::errc() && end == value.data() + value.size() && (number < least || number > most)))
      fail(fmt::format("{}='{}' is out of range; expected {} to {}", name, shorten(value), least, most));
    if (error != std::errc() || end != value.data() + value.size())
      fail(fmt::format("{}='{}' is no whole number", name, shorten(value)));
    return number;
  }
  std::int64_t integer_or(const char* name, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
    return has(name) ? integer(name, least, most) : fallback;
  }

  static std::string shorten(std::string_view value) {
    return value.size() <= 40 ? std::string(value) : fmt::format("{}...", value.substr(0, 40));
  }

 private:
  /// "line 7: gpu 1, tb 0, step 3"
  std::string where() const {
    std::string path;
    for (pugi::xml_node node = node_; node.type() == pugi::node_element; node = node.parent()) {
      const pugi::xml_attribute id = node.attribute(std::string_view(node.name()) == "step" ? "s" : "id");
      const std::string own = id.empty() ? fmt::format("<{}>", shorten(node.name()))
                                         : fmt::format("{} {}", shorten(node.name()), shorten(id.value()));
      if (node.parent().type() == pugi::node_element || path.empty()) path = path.empty() ? own : own + ", " + path;
    }
    return fmt::format("line {}: {}", line_of(text_, node_.offset_debug()), path);
  }

  pugi::xml_node node_;
  std::string_view text_;
};

Collective read_collective(const Element& algo) {
  static constexpr std::pair<std::string_view, Collective> kNames[] = {{"allreduce", Collective::all_reduce},
                                                                       {"allgather", Collective::all_gather},
                                                                       {"reduce", Collective::reduce},
                                                                       {"broadcast", Collective::broadcast},
                                                                       {"alltoall", Collective::all_to_all},
                                                                       {"reduce_scatter", Collective::reduce_scatter},
                                                                       {"reducescatter", Collective::reduce_scatter},
                                                                       {"gather", Collective::gather},
                                                                       {"scatter", Collective::scatter}};
  const std::string_view name = algo.text("coll");
  std::vector<std::string_view> known;
  for (const auto& [text, collective] : kNames) {
    if (text == name) return collective;
    known.push_back(text);
  }
  if (name == "custom")
    algo.fail("coll='custom' is not supported: the file does not say what it computes", ErrorCode::unsupported);
  algo.fail(fmt::format("coll='{}' is no known collective; expected one of {}", Element::shorten(name),
                        fmt::join(known, ", ")));
}

bool holds_blocks(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter ||
         collective == Collective::all_to_all || collective == Collective::gather || collective == Collective::scatter;
}

Shape read_shape(const Element& algo) {
  Shape shape;
  shape.collective = read_collective(algo);
  shape.ranks = static_cast<int>(algo.integer("ngpus", 1, kMaxRanks));
  // MSCCL counts chunks over the whole buffer, also where it holds a block of each rank.
  const auto chunks = static_cast<int>(algo.integer("nchunksperloop", 1, kMaxChunks));
  if (holds_blocks(shape.collective)) {
    if (chunks % shape.ranks != 0)
      algo.fail(fmt::format("nchunksperloop='{}' is no multiple of the {} gpus", chunks, shape.ranks));
    shape.chunks = chunks / shape.ranks;
  } else {
    shape.chunks = chunks;
  }
  return shape;
}

/// Reads one <gpu>.
class GpuReader {
 public:
  GpuReader(const Shape& shape, bool aliased, std::int64_t channels, const Element& gpu, int rank)
      : shape_(shape), aliased_(aliased), channels_(channels), gpu_(gpu), rank_(rank) {}

  RankProgram read() {
    check_chunks("i_chunks", shape_.collective == Collective::all_gather || shape_.collective == Collective::gather);
    check_chunks("o_chunks",
                 shape_.collective == Collective::reduce_scatter || shape_.collective == Collective::scatter);
    part_.scratch_chunks = static_cast<int>(gpu_.integer_or("s_chunks", 0, 0, kMaxChunks));
    const std::vector<Element> blocks = by_number(gpu_.children("tb", "copy"), "id");
    if (blocks.size() > kMaxWorkers)
      gpu_.fail(fmt::format("{} tbs exceed the limit of {}", blocks.size(), kMaxWorkers));
    for (const Element& block : blocks) steps_.push_back(by_number(block.children("step"), "s"));
    for (std::size_t id = 0; id < blocks.size(); ++id) part_.workers.push_back(read_block(blocks[id], id));
    return std::move(part_);
  }

 private:
  /// 0 means that the file does not use the buffer; else it must be the collective's number.
  void check_chunks(const char* name, bool one_block) const {
    const int whole = holds_blocks(shape_.collective) ? shape_.chunks * shape_.ranks : shape_.chunks;
    const int expected = one_block ? shape_.chunks : whole;
    const std::int64_t chunks = gpu_.integer_or(name, 0, 0, kMaxChunks);
    if (chunks != 0 && chunks != expected)
      gpu_.fail(fmt::format("{}='{}' does not fit nchunksperloop='{}'; expected {}", name, chunks, whole, expected));
  }

  /// Sorted by an attribute that must count from 0.
  static std::vector<Element> by_number(std::vector<Element> elements, const char* name) {
    std::vector<std::optional<Element>> slots(elements.size());
    for (const Element& element : elements) {
      auto& slot =
          slots[static_cast<std::size_t>(element.integer(name, 0, static_cast<std::int64_t>(elements.size()) - 1))];
      if (slot) element.fail(fmt::format("{}='{}' stands twice", name, element.text(name)));
      slot = element;
    }
    for (std::size_t i = 0; i < slots.size(); ++i) elements[i] = *slots[i];
    return elements;
  }

  Worker read_block(const Element& block, std::size_t id) const {
    Worker worker;
    worker.send_peer = read_peer(block, "send");
    worker.recv_peer = read_peer(block, "recv");
    worker.channel = static_cast<int>(block.integer("chan", 0, channels_ - 1));
    for (const Element& step : steps_[id]) worker.steps.push_back(read_step(step, worker, id));
    return worker;
  }

  int read_peer(const Element& block, const char* name) const {
    const auto peer = static_cast<int>(block.integer(name, -1, shape_.ranks - 1));
    if (peer == rank_) block.fail(fmt::format("{}='{}' is the gpu itself", name, peer));
    return peer;
  }

  Step read_step(const Element& element, const Worker& worker, std::size_t block) const {
    Step step;
    read_type(element, step);
    if (sends(step.kind) && worker.send_peer == kNobody)
      element.fail(fmt::format("type='{}' in a tb whose send is -1", element.text("type")));
    if (receives(step.kind) && worker.recv_peer == kNobody)
      element.fail(fmt::format("type='{}' in a tb whose recv is -1", element.text("type")));
    read_dependency(element, block, step);
    return step;
  }

  void read_type(const Element& element, Step& step) const {
    struct MscclStepType {
      std::string_view name;
      StepKind kind;
      bool source, target;
    };
    static constexpr MscclStepType kTypes[] = {{"s", StepKind::send, true, false},
                                               {"r", StepKind::recv, false, true},
                                               {"rcs", StepKind::recv_copy_send, false, true},
                                               {"rrs", StepKind::recv_reduce_send, true, false},
                                               {"rrc", StepKind::recv_reduce, true, true},
                                               {"rrcs", StepKind::recv_reduce_copy_send, true, true},
                                               {"cpy", StepKind::copy, true, true},
                                               {"re", StepKind::reduce, true, true},
                                               {"nop", StepKind::nop, false, false}};
    const std::string_view name = element.text("type");
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const MscclStepType& t) { return t.name == name; });
    if (type == std::end(kTypes))
      element.fail(fmt::format("type='{}' is no step type; expected one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop",
                               Element::shorten(name)));
    step.kind = type->kind;
    if (type->source) step.sources.push_back(read_cells(element, "srcbuf", "srcoff"));
    if (type->target) step.targets.push_back(read_cells(element, "dstbuf", "dstoff"));
    if (type->kind == StepKind::reduce) step.sources.insert(step.sources.begin(), step.targets.front());
  }

  Cells read_cells(const Element& element, const char* buffer_name, const char* offset_name) const {
    const std::string_view buffer = element.text(buffer_name);
    if (buffer != "i" && buffer != "o" && buffer != "s")
      element.fail(fmt::format("{}='{}' is no buffer; expected i, o or s", buffer_name, Element::shorten(buffer)));
    Cells cells;
    cells.buffer = buffer == "i" ? Buffer::input : buffer == "o" ? Buffer::output : Buffer::scratch;
    cells.first = static_cast<int>(element.integer(offset_name, 0, kMaxChunks));
    cells.count = static_cast<int>(element.integer("cnt", 1, kMaxChunks));
    if (!fits(cells) && aliased_) cells = other_name(cells);
    if (!fits(cells))
      element.fail(fmt::format("{}='{}' cnt='{}' goes past the end of {}='{}', which has {} chunks", offset_name,
                               element.text(offset_name), cells.count, buffer_name, buffer, chunks_in(cells.buffer)));
    return cells;
  }

  int chunks_in(Buffer buffer) const {
    if (buffer == Buffer::scratch) return part_.scratch_chunks;
    return buffer == Buffer::input ? input_chunks(shape_, rank_) : output_chunks(shape_, rank_);
  }

  bool fits(const Cells& cells) const {
    return cells.first >= 0 && cells.first + cells.count <= chunks_in(cells.buffer);
  }

  /// In place a cell can be named through the other buffer: where a rank has no output (or no input) files still do.
  Cells other_name(Cells cells) const {
    if (cells.buffer == Buffer::scratch) return cells;
    const bool input_is_block = shape_.collective == Collective::all_gather || shape_.collective == Collective::gather;
    const bool output_is_block =
        shape_.collective == Collective::reduce_scatter || shape_.collective == Collective::scatter;
    const int block = input_is_block ? rank_ * shape_.chunks : output_is_block ? -rank_ * shape_.chunks : 0;
    const bool input = cells.buffer == Buffer::input;
    Cells other = cells;
    other.buffer = input ? Buffer::output : Buffer::input;
    other.first += input ? block : -block;
    return fits(other) ? other : cells;
  }

  void read_dependency(const Element& element, std::size_t block, Step& step) const {
    const std::int64_t on = element.integer_or("depid", -1, -1, static_cast<std::int64_t>(steps_.size()) - 1);
    if (on < 0) return;
    const auto worker = static_cast<std::size_t>(on);
    if (steps_[worker].empty()) element.fail(fmt::format("depid='{}' is a tb without steps", on));
    const std::int64_t index = element.integer("deps", 0, static_cast<std::int64_t>(steps_[worker].size()) - 1);
    if (worker != block) {
      step.after.push_back({static_cast<int>(on), static_cast<int>(index)});
    } else if (index >= element.integer("s", 0, index)) {
      element.fail(fmt::format("depid='{}' deps='{}' waits for itself or a later step of its own tb", on, index));
    }
  }

  const Shape& shape_;
  bool aliased_;
  std::int64_t channels_;
  const Element& gpu_;
  int rank_;
  RankProgram part_;
  std::vector<std::vector<Element>> steps_;  // by tb
};

/// XML names no root: it is the one rank that receives nothing (broadcast, scatter) or sends nothing (reduce, gather).
int find_root(const Element& algo, const Shape& shape) {
  if (algo.has("root")) return static_cast<int>(algo.integer("root", 0, shape.ranks - 1));
  const bool outward = shape.collective == Collective::broadcast || shape.collective == Collective::scatter;
  // A send or a forward ends in s; whatever receives begins with r, but for the local reduction.
  const auto moves = [&](std::string_view type) {
    return outward ? type.substr(0, 1) == "r" && type != "re" : !type.empty() && type.back() == 's';
  };
  std::vector<std::int64_t> candidates;
  for (const Element& gpu : algo.children("gpu")) {
    bool any = false;
    for (const Element& block : gpu.children("tb", "copy"))
      for (const Element& step : block.children("step")) any = any || moves(step.text("type"));
    if (!any) candidates.push_back(gpu.integer("id", 0, shape.ranks - 1));
  }
  if (candidates.size() != 1)
    algo.fail(fmt::format("the root cannot be told: {} gpus {} nothing; say root='...'", candidates.size(),
                          outward ? "receive" : "send"));
  return static_cast<int>(candidates.front());
}

bool read_flag(const Element& algo, const char* name) { return algo.integer(name, 0, 1) == 1; }

std::vector<RankProgram> read_gpus(const Element& algo, const Shape& shape, bool aliased) {
  const std::int64_t channels = algo.integer_or("nchannels", kMaxChannels, 1, kMaxChannels);
  std::vector<std::optional<RankProgram>> parts(static_cast<std::size_t>(shape.ranks));
  for (const Element& gpu : algo.children("gpu")) {
    const auto rank = static_cast<int>(gpu.integer("id", 0, shape.ranks - 1));
    auto& part = parts[static_cast<std::size_t>(rank)];
    if (part) gpu.fail(fmt::format("id='{}' stands twice", rank));
    part = GpuReader(shape, aliased, channels, gpu, rank).read();
  }
  std::vector<RankProgram> all;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!parts[rank]) algo.fail(fmt::format("gpu {} is missing; ngpus='{}'", rank, shape.ranks));
    all.push_back(std::move(*parts[rank]));
  }
  return all;
}

Program read_algo(const Element& algo) {
  Shape shape = read_shape(algo);
  const bool in_place = read_flag(algo, "inplace");
  const bool out_of_place = algo.has("outofplace") ? read_flag(algo, "outofplace") : !in_place;
  if (!in_place && !out_of_place) algo.fail("inplace='0' outofplace='0': it may never run");
  if (has_root(shape.collective)) shape.root = find_root(algo, shape);
  const bool aliased = in_place && !out_of_place;
  Program program = make_flat(std::string(algo.text("name")), shape, read_gpus(algo, shape, aliased));
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  program.in_place = in_place;
  program.out_of_place = out_of_place;
  program.min_bytes = static_cast<std::uint64_t>(algo.integer_or("minBytes", 0, 0, kMost));
  program.max_bytes = static_cast<std::uint64_t>(algo.integer_or("maxBytes", 0, 0, kMost));
  if (program.max_bytes != 0 && program.max_bytes < program.min_bytes)
    algo.fail(fmt::format("maxBytes='{}' is less than minBytes='{}'", program.max_bytes, program.min_bytes));
  return program;
}

}  // namespace

Result<Program> load_msccl(std::string_view text) {
  if (text.size() > kMaxText)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} bytes of XML exceed the limit of {}", text.size(), kMaxText));
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed)
    return fail(ErrorCode::invalid_argument,
                fmt::format("line {}: not XML: {}", line_of(text, parsed.offset), parsed.description()));
  const pugi::xml_node root = document.document_element();
  if (std::string_view(root.name()) != "algo")
    return fail(ErrorCode::invalid_argument,
                fmt::format("the document element is <{}>; MSCCL files have <algo>", Element::shorten(root.name())));
  try {
    return read_algo(Element(root, text));
  } catch (const XmlError& error) {
    return fail(error.code, error.what());
  }
}

}  // namespace tutti
