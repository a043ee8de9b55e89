# M1, M10: exchanges byte by byte, for each version that they concern, as the standard's statements want them
# (test/sequences; docs/conformance-mqtt.md names which case shows what).  They begin with a server of their own, anonymous
# clients, one mount of every topic with a state table, and the letter of the standard where brokers differ.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Sequences;

my ($top) = __FILE__ =~ m{^(.*)/t/[^/]+$};
my $s = FleetlogTest->new('sequences', conf => <<'CONF');
fleetlog.allow_anonymous = on
fleetlog.mqtt_dialect = strict
fleetlog.max_topic_aliases = 10
fleetlog.max_inflight = 20
fleetlog.reason_strings = off
CONF
$s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_state('now')");
$s->sql("SELECT fleetlog.mount('', 'telemetry', state => 'now')");
my $postmaster = $s->sql('SELECT pg_postmaster_start_time()');
$FleetlogTest::Sequences::TIMEOUT = $FleetlogTest::TIMEOUT;

my ($number, %seen) = (0);
for my $path (sort glob "$top/sequences/*.seq")
{
    for my $case (FleetlogTest::Sequences::read_file($path))
    {
        $number++;
        ok(!$seen{ $case->{name} }++, "one case $case->{name}");
        ok(@{ $case->{versions} } && @{ $case->{steps} } && (@{ $case->{shows} } || @{ $case->{shows3} }), 'shows something');
        for my $version (@{ $case->{versions} })
        {
            is(FleetlogTest::Sequences::play($case, $version, port => $s->port, number => $number), '',
                "version $version: $case->{name}");
        }
    }
}
cmp_ok($number, '>', 100, "$number cases");
is($s->sql('SELECT pg_postmaster_start_time()'), $postmaster, 'the server survived them');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
