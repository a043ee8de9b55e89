# The power-cut layer itself: what was not flushed is gone after a cut, what was is there, of contents and of names; a
# random part survives where that is asked for; and a server that does not flush is caught losing what it acknowledged.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Load;
use FleetlogTest::Powercut;
use PostgreSQL::Test::Utils;

my $root = PostgreSQL::Test::Utils::tempdir() . '/disk';
mkdir $root or die "$root: $!";
my $disk = FleetlogTest::Powercut->over($root);

sub content
{
    my ($name) = @_;
    return 'no file' unless -e "$root/$name";
    return PostgreSQL::Test::Utils::slurp_file("$root/$name");
}

# Commands of victim.c, then a cut, then what each file must hold.
sub promise
{
    my ($name, $commands, %left) = @_;
    my $victim = $disk->victim;
    $victim->(@$commands);
    my $cut = $disk->cut;
    is($cut->{killed}, 1, "$name: the program died");
    is(content($_), $left{$_}, "$name: $_") for sort keys %left;
    unlink glob "$root/*";
    return;
}

promise('flushed, then more', [ 'open a creat', 'write first', 'fsync', 'write second' ], a => 'first');
promise('never flushed', [ 'open a creat', 'write first' ], a => 'no file');
promise('overwritten', [ 'open a creat', 'write abcdef', 'fsync', 'pwrite 2 XY', 'pwrite 1 Z' ], a => 'abcdef');
promise('overwritten and flushed', [ 'open a creat', 'write abcdef', 'fsync', 'pwrite 2 XY', 'fsync' ], a => 'abXYef');
promise('truncated', [ 'open a creat', 'write abcdef', 'fsync', 'truncate 2' ], a => 'abcdef');
promise('truncated and written', [ 'open a creat', 'write abcdef', 'fsync', 'truncate 2', 'pwrite 2 UVWXYZ' ], a => 'abcdef');
promise('truncated by open', [ 'open a creat', 'write abcdef', 'fsync', 'close', 'open a trunc', 'write x' ], a => 'abcdef');
promise('synchronous writes', [ 'open a creat', 'write abcdef', 'fsync', 'close', 'open a dsync', 'pwrite 1 X' ], a => 'aXcdef');
promise('made longer', [ 'open a creat', 'write abc', 'fsync', 'allocate 8192', 'pwrite 3 def' ], a => 'abc');
promise('created, its directory flushed', [ 'open a creat', 'fsyncdir' ], a => '');
promise('renamed', [ 'open a creat', 'write new', 'fsync', 'rename a b' ], a => 'new', b => 'no file');
promise('renamed, directory flushed', [ 'open a creat', 'write new', 'fsync', 'rename a b', 'fsyncdir' ], a => 'no file', b => 'new');
promise('replaced', [ 'open b creat', 'write old', 'fsync', 'fsyncdir', 'close', 'open a creat', 'write new', 'fsync', 'rename a b' ], b => 'old');
promise('removed', [ 'open a creat', 'write kept', 'fsync', 'unlink a' ], a => 'kept');
promise('removed, directory flushed', [ 'open a creat', 'write kept', 'fsync', 'unlink a', 'fsyncdir' ], a => 'no file');
promise('linked', [ 'open a creat', 'write kept', 'fsync', 'link a b' ], a => 'kept', b => 'no file');

# A random part: the same seed leaves the same; some seeds tear a page of 8 kB in the middle.
my %seen;
# Inodes have a part in the choice as well: at least twelve, and on until both kinds were there.
for my $seed (1 .. 200)
{
    last if $seed > 12 && $seen{nothing} && $seen{part};
    my @left;
    for my $try (1, 2)
    {
        my $victim = $disk->victim;
        $victim->('open a creat', 'truncate 8192', 'fsync', map { 'pwrite ' . ($_ * 512) . ' ' . 'x' x 200 } 0 .. 15);
        # Inodes have a part in the choice, so the file stays the same one.
        $disk->cut(mode => 'some', seed => $seed);
        push @left, scalar(() = content('a') =~ /x{200}/g);
        next if $try == 2;
        open my $f, '+<', "$root/a" or die "$root/a: $!";
        truncate $f, 0;
    }
    is($left[0], $left[1], "seed $seed leaves the same twice");
    $seen{ $left[0] == 0 ? 'nothing' : $left[0] == 16 ? 'all' : 'part' }++;
    unlink "$root/a";
}
ok($seen{nothing} && $seen{part}, 'seeds differ: ' . join ', ', map { "$_ $seen{$_}" } sort keys %seen);

# A small disk.
{
    my $victim = $disk->victim;
    $disk->set(free_data => 10);
    $victim->('open a creat', 'write abcdef');
    like($victim->('!write ghijkl'), qr/ENOSPC/, 'a write beyond the free space is refused');
    like($victim->('!allocate 4096'), qr/ENOSPC/, 'so is space in advance');
    is($victim->('pwrite 0 XXXXXX'), "ok\n", 'overwriting needs none');
    $victim->('truncate 0', 'pwrite 0 abcdefghij');
    is($disk->counters->{refused}, 2, 'refusals are counted');
    $disk->cut;
}

# A server: with fsync on a cut loses nothing that was acknowledged; with fsync off it must be seen to lose.
my $s = FleetlogTest->new('powercut', no_start => 1, conf => "wal_writer_delay = 10s\nwal_writer_flush_after = 1GB\ncheckpoint_timeout = 1h\n");
$s->start_and_install;
$s->fleet(devices => 3);
$s->node->stop;
my $power = FleetlogTest::Powercut->new($s);
my $load = FleetlogTest::Load->new($s, devices => 3, run => 'p');
my %lost;
for my $fsync ('on', 'off')
{
    $s->set_conf(fsync => $fsync);
    $power->start;
    my $before = $load->acked;
    $load->connect_all;
    $load->pump($FleetlogTest::TIMEOUT, sub { $load->acked > $before + 200 });
    cmp_ok(scalar $load->acked, '>', $before + 200, "fsync $fsync: acknowledgements flow");
    my $cut = $power->cut;
    cmp_ok($cut->{killed}, '>', 5, "fsync $fsync: every process died");
    $load->cut_off;
    if ($fsync eq 'on') { $power->start; }
    else { last unless eval { $power->within(sub { $s->node->start(fail_ok => 1) }) }; }
    $lost{$fsync} = $s->missing_payloads('telemetry', $load->acked);
    is($s->density_faults, '', 'fsync on: offsets dense, time in order') if $fsync eq 'on';
    $s->node->stop if $fsync eq 'on';
}
is($lost{on}, 0, 'fsync on: nothing acknowledged is missing');
isnt($lost{off} // 'would not start', 0, 'fsync off: the layer takes back what was acknowledged: ' . ($lost{off} // 'the server does not even start'));
eval { $s->node->stop('immediate') };
done_testing();
