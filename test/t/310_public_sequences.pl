# M1, M10: the byte sequences of another broker's own tests, where the data is present: all of them, with anonymous login,
# one mount with a state table, and everything else as it is by default.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $shared = $ENV{FLEETLOG_SHARED} // '../shared';
my $tool = "$shared/tools/mqtt_sequences.py";
my $data = "$shared/data/mqtt-sequences";
plan skip_all => "no $tool" unless -r $tool && -d $data;

my $s = FleetlogTest->new('sequences', conf => "fleetlog.allow_anonymous = on\n");
$s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_state('now')");
$s->sql("SELECT fleetlog.mount('', 'telemetry', state => 'now')");
my $postmaster = $s->sql('SELECT pg_postmaster_start_time()');
my ($out, $err) = ('', '');
IPC::Run::run([ 'python3', $tool, '--port', $s->port, '--show', '400', $data ], '>', \$out, '2>', \$err, IPC::Run::timeout(1200));
my ($summary) = grep { /\d+.*(pass|fail|of)/i } reverse split /\n/, $out;
diag('sequences: ' . ($summary // 'no summary'));
note($out);
ok(defined $summary, 'the sequences ran to their end') or diag($err);
is($summary // '', '1483 of 1483 sequences', 'relaxed: all of them') or diag($out);
is($s->sql('SELECT pg_postmaster_start_time()'), $postmaster, 'the server survived them');
is($s->crashes, '', 'no crash');
$s->wait_for_mqtt;
$s->node->stop;
done_testing();
