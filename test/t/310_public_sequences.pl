# M1, M10: the byte sequences of another broker's own tests, where the data is present: all of them, with anonymous login,
# one mount with a state table, and everything else as it is by default; and exactly, with the profile in test/interop.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $shared = $ENV{FLEETLOG_SHARED} // '../shared';
my $tool = "$shared/tools/mqtt_sequences.py";
my $data = "$shared/data/mqtt-sequences";
plan skip_all => "no $tool" unless -r $tool && -d $data;


sub slurp { my ($path) = @_; open my $in, '<', $path or die "$path: $!\n"; local $/ = undef; return scalar <$in>; }

my ($top) = __FILE__ =~ m{^(.*)/t/[^/]+$};
my %conf = (relaxed => "fleetlog.allow_anonymous = on\n", exact => slurp("$top/interop/mosquitto.conf"));
for my $how ('relaxed', 'exact')
{
    my $s = FleetlogTest->new("sequences_$how", conf => $conf{$how});
    $s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_state('now')");
    $s->sql("SELECT fleetlog.mount('', 'telemetry', state => 'now')");
    my $postmaster = $s->sql('SELECT pg_postmaster_start_time()');
    my ($out, $err) = ('', '');
    my @mode = $how eq 'exact' ? ('--exact') : ();
    IPC::Run::run([ 'python3', $tool, '--port', $s->port, '--show', '400', @mode, $data ], '>', \$out, '2>', \$err, IPC::Run::timeout(1200));
    my ($summary) = grep { /\d+.*(pass|fail|of)/i } reverse split /\n/, $out;
    is($summary // '', '1483 of 1483 sequences', "$how: all of them") or diag("$out$err");
    is($s->sql('SELECT pg_postmaster_start_time()'), $postmaster, "$how: the server survived them");
    is($s->crashes, '', "$how: no crash");
    $s->wait_for_mqtt;
    $s->node->stop;
}
done_testing();
