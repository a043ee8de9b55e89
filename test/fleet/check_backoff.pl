#!/usr/bin/perl
# check_backoff.pl: do the pauses of a fleet obey the law of full jitter?  Reads the output of fl_fleet.
#
# usage: check_backoff.pl [--devices N] [--outages N] [FILE]
#
# The law leaves marks in the counts of the summary, whatever the clock did:
#   - a device reaches n failures in a row only through n - 1, so pauses never grow in number from one n to the next until the window
#     has reached its cap, where they may stay for ever;
#   - below the cap each device makes one attempt for each n and outage.  --outages says how many times a device that
#     had lived can have lost its connection (default: as many as were lost, over all devices);
#   - within a window every tenth is as likely as another: each count is within five standard deviations of a tenth.
# Status 0 when all hold.
use strict;
use warnings;
use Getopt::Long;
use JSON::PP;

my ($devices, $outages);
GetOptions('devices=i' => \$devices, 'outages=i' => \$outages) or exit 2;
my ($summary) = grep { $_->{summary} } map { decode_json($_) } grep { /^\{"summary"/ } <>;
defined $summary or die "check_backoff.pl: no summary\n";
$devices //= $summary->{devices};
my $failed = 0;

sub ok
{
    my ($good, $what) = @_;
    print(($good ? 'ok' : 'not ok') . " - $what\n");
    $failed++ unless $good;
    return;
}

my @rows = sort { $a->{failures} <=> $b->{failures} } @{ $summary->{backoff} };
my $cap = $rows[-1]{window_ms};
ok(@rows > 1 && $rows[0]{failures} == 0, 'there were failures in a row to judge (' . join(', ', map { "$_->{failures}: $_->{count}" } @rows) . ')');

my $begun = defined $outages ? $outages * $devices : $summary->{lost} + $summary->{boots};
ok($rows[0]{count} <= $begun, "first pauses: $rows[0]{count}, at most one for each of $begun connections lost or devices started");
for my $i (1 .. $#rows)
{
    my ($before, $row) = @rows[ $i - 1, $i ];
    ok($row->{failures} == $before->{failures} + 1, "nobody skips $before->{failures} failures");
    # Only the last window may be the cap.
    ok($row->{window_ms} == 2 * $before->{window_ms} || ($row->{window_ms} < 2 * $before->{window_ms} && $row->{window_ms} >= $before->{window_ms} && $row->{window_ms} == $cap),
        "window after $row->{failures} failures: $row->{window_ms} ms");
    ok($row->{count} <= $before->{count}, "$row->{count} pauses after $row->{failures} failures, no more than the $before->{count} before them")
      if $row->{failures} < 30;
}

for my $row (@rows)
{
    my $n = $row->{count};
    next if $n < 100;
    my $allowed = 5 * sqrt($n * 0.1 * 0.9);
    my ($worst) = sort { $b <=> $a } map { abs($_ - $n / 10) } @{ $row->{tenths} };
    ok($worst <= $allowed,
        sprintf 'pauses after %d failures are spread: tenths of %d are [%s], at most %.0f from even', $row->{failures}, $n, join(' ', @{ $row->{tenths} }), $allowed);
}
exit($failed > 0 ? 1 : 0);
