#include "bound/certificate.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "bound/bound.hpp"
#include "bound/check_certificate.hpp"
#include "topology/builtin/builtin.hpp"
#include "topology/formats/format_json.hpp"

namespace tutti {
namespace {

const std::vector<Collective> kAll = {Collective::all_reduce, Collective::reduce,         Collective::broadcast,
                                      Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
                                      Collective::gather,     Collective::scatter};

Topology make(std::string_view spec) { return make_builtin(spec).value(); }

Certificate largest(const Topology& topology, Collective collective) {
  return bound(topology, collective, 1).value().for_large();
}

std::string why_rejected(const Topology& topology, const Certificate& certificate) {
  const Status status = check_certificate(topology, certificate);
  return status ? "" : status.error().message;
}

TEST(Certificates, RoundTripThroughTheirFile) {
  for (const char* spec : {"ndv2:nodes=2", "torus2d:3x3"})
    for (const Collective collective : kAll) {
      const Topology topology = make(spec);
      const Bound found = bound(topology, collective, 1).value();
      for (const Certificate& certificate : found.certificates) {
        const auto read = certificate_from_json(certificate_to_json(certificate));
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(*read, certificate) << name_of(collective);
      }
    }
}

TEST(Certificates, HoldForTheTopologyReadBackFromItsFile) {
  const Topology topology = make("dgx-a100:nodes=2");
  const Topology read = topology_from_json(topology_to_json(topology)).value();
  for (const Collective collective : kAll) EXPECT_EQ(why_rejected(read, largest(topology, collective)), "");
}

TEST(Certificates, OfAGigabyteAreAFewHundredBytes) {
  EXPECT_LT(certificate_to_json(largest(make("dgx-a100:nodes=16"), Collective::all_gather)).size(), 400u);
}

TEST(TamperedCertificates, WithAnotherClaimAreRejected) {
  const Topology topology = make("ndv2:nodes=2");
  for (const Collective collective : kAll) {
    const Certificate honest = largest(topology, collective);
    ASSERT_EQ(why_rejected(topology, honest), "");
    Certificate faster = honest, later = honest, other = honest, fewer = honest;
    faster.rate = honest.rate * Rational(1001, 1000);
    later.latency = honest.latency + Rational(1, 1'000'000'000);
    fewer.ranks = 15;
    EXPECT_NE(why_rejected(topology, faster).find("seconds per byte"), std::string::npos) << name_of(collective);
    EXPECT_NE(why_rejected(topology, later).find("a latency of"), std::string::npos) << name_of(collective);
    EXPECT_NE(why_rejected(topology, fewer).find("the topology has 16"), std::string::npos);
    other.collective = Collective::barrier;
    EXPECT_NE(why_rejected(topology, other), "");
  }
}

TEST(TamperedCertificates, WithAnotherCutAreRejected) {
  const Topology topology = make("ndv2:nodes=2");
  const Certificate honest = largest(topology, Collective::all_gather);
  const auto tampered = [&](const std::function<void(Cut&)>& change) {
    Certificate certificate = honest;
    change(std::get<Cut>(certificate.evidence));
    return why_rejected(topology, certificate);
  };
  EXPECT_NE(tampered([](Cut& cut) { cut.inside.pop_back(); }), "");
  EXPECT_NE(tampered([](Cut& cut) { cut.inside.clear(); }).find("no GPU is inside"), std::string::npos);
  EXPECT_NE(tampered([](Cut& cut) { cut.inside.push_back(1000); }).find("out of range"), std::string::npos);
  EXPECT_NE(tampered([](Cut& cut) { std::swap(cut.inside[0], cut.inside[1]); }).find("out of order"),
            std::string::npos);
  EXPECT_NE(tampered([](Cut& cut) { cut.to = 99; }).find("not outside the cut"), std::string::npos);
  EXPECT_NE(tampered([&](Cut& cut) { cut.from = cut.to; }).find("not inside the cut"), std::string::npos);
}

TEST(TamperedCertificates, WithTheWrongRootAreRejected) {
  const Topology topology = make("ring:6");
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter}) {
    Certificate certificate = largest(topology, collective);
    certificate.root = 4;
    EXPECT_NE(why_rejected(topology, certificate).find("the root 4"), std::string::npos) << name_of(collective);
  }
}

TEST(TamperedCertificates, WithAnotherPartitionAreRejected) {
  const Topology topology = make("torus2d:3x3");
  const Certificate honest = largest(topology, Collective::all_reduce);
  ASSERT_TRUE(std::holds_alternative<Partition>(honest.evidence));
  const auto tampered = [&](const std::function<void(Partition&)>& change) {
    Certificate certificate = honest;
    change(std::get<Partition>(certificate.evidence));
    return why_rejected(topology, certificate);
  };
  EXPECT_NE(tampered([](Partition& p) { p.parts.pop_back(); }).find("every GPU once"), std::string::npos);
  EXPECT_NE(tampered([](Partition& p) { p.parts.push_back(p.parts.back()); }).find("every GPU once"),
            std::string::npos);
  EXPECT_NE(tampered([](Partition& p) { p.parts.push_back({}); }).find("holds no GPU"), std::string::npos);
  Certificate misused = honest;
  misused.collective = Collective::all_gather;
  EXPECT_NE(why_rejected(topology, misused).find("of all_reduce only"), std::string::npos);
}

TEST(TamperedCertificates, ThatCountWhatSwitchesSaveAreRejected) {
  // A partition proves nothing where a switch reduces and multicasts; on the same machine without, it does.
  Certificate certificate = largest(make("dgx-a100"), Collective::all_reduce);
  ASSERT_TRUE(std::holds_alternative<Partition>(certificate.evidence));
  EXPECT_NE(why_rejected(make("dgx-h100"), certificate).find("so messages"), std::string::npos);
}

TEST(TamperedCertificates, WithOtherLengthsAreRejected) {
  const Topology topology = make("dgx2:nodes=2");
  const Certificate honest = largest(topology, Collective::all_to_all);
  const auto tampered = [&](const std::function<void(Lengths&)>& change) {
    Certificate certificate = honest;
    change(std::get<Lengths>(certificate.evidence));
    return why_rejected(topology, certificate);
  };
  EXPECT_NE(tampered([](Lengths& l) { l.of_links[3] += 7; }), "");
  EXPECT_NE(tampered([](Lengths& l) { l.of_links.pop_back(); }).find("lengths for"), std::string::npos);
  EXPECT_NE(tampered([](Lengths& l) { l.of_links[0] = -1; }).find("a link has length -1"), std::string::npos);
  EXPECT_NE(
      tampered([](Lengths& l) { std::fill(l.of_links.begin(), l.of_links.end(), 0); }).find("all lengths are zero"),
      std::string::npos);
}

TEST(TamperedCertificates, OfAnotherTopologyAreRejected) {
  const Certificate certificate = largest(make("torus2d:4x4"), Collective::all_gather);
  EXPECT_NE(why_rejected(make("torus2d:4x4,bandwidth=50 GB/s"), certificate), "");
  EXPECT_NE(why_rejected(make("torus2d:4x4,latency=1 us"), certificate), "");
  EXPECT_NE(why_rejected(make("mesh:4x4"), certificate), "");
}

TEST(CertificateFiles, NameThePlaceOfAMistake) {
  const std::string honest = certificate_to_json(largest(make("ring:4"), Collective::all_gather));
  const auto why = [&](const std::string& from, const std::string& to) {
    std::string text = honest;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto read = certificate_from_json(text);
    return read ? "" : read.error().message;
  };
  EXPECT_NE(why("all_gather", "all_gathers").find("collective: 'all_gathers' is no collective"), std::string::npos);
  EXPECT_NE(why("\"rate\": \"", "\"rate\": \"-").find("rate: '-"), std::string::npos);
  EXPECT_NE(why("\"cut\": \"", "\"cut\": \"9-").find("evidence.cut"), std::string::npos);
  EXPECT_NE(why("\"cut\"", "\"cat\"").find("evidence.cat: unknown key"), std::string::npos);
  EXPECT_NE(why("tutti bound 1", "tutti bound 2").find("format"), std::string::npos);
}

}  // namespace
}  // namespace tutti
