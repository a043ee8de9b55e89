# L14: a segment that format 1.0 wrote is read by this release, record by record, and appends go on behind it; another
# major version is refused by name, and so is a damaged page, while the pages beside it can still be read.
use strict;
use warnings;
use Test::More;
use File::Basename qw(dirname);
use FleetlogTest;

my $golden = dirname(__FILE__) . '/../golden/segment-1.0';
# The planted file bears no checksums of pages, which this test also damages on purpose.
my $s = FleetlogTest->new('golden', no_checksums => 1);

sub slurp { local $/; open(my $f, '<:raw', $_[0]) or die "$_[0]: $!"; return <$f> }

# Puts these bytes where the first segment of a new stream lies.
sub plant
{
    my ($stream, $bytes) = @_;
    $s->sql("SELECT fleetlog.create_stream('$stream')");
    my $file = $s->node->data_dir . '/' . $s->sql("SELECT pg_relation_filepath('${stream}_0_0')");
    $s->node->stop;
    open(my $f, '>:raw', $file) or die "$file: $!";
    print $f $bytes;
    close $f;
    $s->node->start;
    $s->wait_for_mqtt;
    return;
}

my $bytes = slurp($golden);
my $list = "SET timezone = 'UTC'; SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, md5(payload) FROM %s ORDER BY 1, 2";

plant('golden', $bytes);
my @expected = grep { /^\d/ } split(/\n/, slurp("$golden.rows"));
my @got = grep { /^\d/ } split(/\n/, $s->sql(sprintf($list, 'golden')));
is(scalar @got, scalar @expected, 'as many records as in 1.0');
is(join("\n", @got), join("\n", @expected), 'the same records as in 1.0');
is($s->sql("SELECT fleetlog.tail('golden', 0)"), 612, 'tail');
is($s->sql("SELECT (fleetlog.append('golden', 'k', 'behind')).log_offset"), 612, 'appends go on');
is($s->sql("SELECT count(*), count(DISTINCT ctid) FROM golden"), '613|613', 'no item number is used twice');

my $newer = $bytes;
substr($newer, 8192 + 8192 - 32 + 2, 1) = chr(2);
plant('newer', $newer);
my ($ret, $out, $err) = $s->node->psql('fleetlog', 'SELECT count(*) FROM newer');
like($err, qr/format version or codec that this release does not know/, 'another major version is refused by name');

my $damaged = $bytes;
substr($damaged, 8192 + 24 + 50, 1) = chr(ord(substr($damaged, 8192 + 24 + 50, 1)) ^ 1);
plant('damaged', $damaged);
($ret, $out, $err) = $s->node->psql('fleetlog', 'SELECT count(*) FROM damaged');
like($err, qr/block 1 of segment "damaged_0_0" is damaged/, 'a damaged page is named');
is($s->sql("SELECT min(log_offset), count(*) FROM fleetlog.read('damaged', 0, 11, 1000)"), '11|601', 'the others are read');
done_testing();
